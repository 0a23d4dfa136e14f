package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newCells(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cells [CELL]",
		Short: "Show the cells a gateway knows, and hold their gates",
		Long: `Show the cells a gateway knows. GATE says, of a cell under upgrade, who reports its
hosts: Nova's tables (LEGACY, SHADOW) or agents (NATIVE). Of a cell that does not answer the numbers are those of
its last answer; STATE says how old that is. Lines below the table say why a cell is not available
and what its gate waits for; with a CELL all that there is to say of the cell is shown.`,
		Example: `  cellgate cells
  cellgate cells --sort hosts-up --limit 10
  cellgate cells cell1 -o json
  cellgate cells pin cell1 native --reason "Nova's database is gone for good"
  cellgate cells unpin cell1 --reason "its tables are read again"`,
		Args: usageArgs(oneArgOr),
	}
	c := newClient(cmd, t)
	watchFlag(cmd)
	limit := listFlags(cmd, "cells")
	cmd.AddCommand(newPin(c), newUnpin(c))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return ask(c, cmd, cellgatev1.NewCellsClient, cellgatev1.CellsClient.GetCell, &cellgatev1.GetCellRequest{Cell: args[0]},
				func(p *page, m *cellgatev1.GetCellResponse) { showCell(p, m.GetCell()) })
		}
		by, _ := cmd.Flags().GetString("sort")
		sorted, more, most := by != "" && isTable(cmd), false, int(*limit)
		return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.ListCellsResponse, error) {
			m, err := cellgatev1.NewCellsClient(conn).ListCells(ctx, &cellgatev1.ListCellsRequest{})
			// Only the whole list tells which rows sort first.
			if more = most > 0 && len(m.GetCells()) > most && !sorted; more {
				m.Cells = m.Cells[:most]
			}
			return m, err
		}, func(p *page, m *cellgatev1.ListCellsResponse) {
			if sorted {
				p.first = most
			}
			showCells(p, m.GetCells())
			footer(p, "cells", len(m.GetCells()), more, nil)
		})
	}
	return cmd
}

// listWidth bounds how many columns a reason takes in a line of the list of cells.
const listWidth = 100

// showCells shows the cells. Then it shows why some are not available and what their gates wait for.
func showCells(p *page, cells []*cellgatev1.Cell) {
	headers := []string{"CELL", "STATE", "HOSTS UP", "PENDING", "CONFIRMED", "VCPU", "MEMORY GIB", "+DISK GIB", "+OTHER", "+ZONES", "+REPLICAS", "+BREAKERS", "GATE"}
	if p.record { // more is known of a single cell
		headers = append(headers, "AGGREGATES", "TRAITS")
	}
	t := p.table(headers...)
	var notes strings.Builder
	for _, c := range cells {
		var r resources
		for _, x := range c.GetResources() {
			r.add(x.GetResourceClass(), x.GetUsed(), x.GetCapacity())
		}
		gate := gateText(c.GetGate())
		if short := c.GetGate().GetState().String(); !p.wide && !p.record && strings.HasPrefix(gate, short) {
			if strings.Contains(gate, ", ") {
				fmt.Fprintf(&notes, "%s: gate %s\n", c.GetCell(), printable(gate))
			}
			gate = short
		}
		if why := printable(c.GetReason()); why != "" {
			if !p.wide && !p.record {
				why = cut(why, max(listWidth-len(c.GetCell())-len(": ")-len(" …"), mostWait))
			}
			fmt.Fprintf(&notes, "%s: %s\n", c.GetCell(), why)
		}
		if at := c.GetAnsweredAt(); at != nil {
			fmt.Fprintf(&notes, "%s: last answered %s, at %s: its numbers are of then\n", c.GetCell(), age(time.Now(), at.AsTime()), timeText(at))
		}
		up, pending, confirmed := of(c.GetHostsUp(), c.GetHosts()), fmt.Sprint(c.GetClaimsPending()), fmt.Sprint(c.GetClaimsConfirmed())
		if c.GetTableVersion() == "" { // the cell gave no numbers yet
			up, pending, confirmed = "", "", ""
		}
		row := []any{
			c.GetCell(), cellStatus(c), up, pending, confirmed, r.cpu, r.memory, r.disk,
			strings.Join(r.other, ", "), strings.Join(c.GetAvailabilityZones(), ","), strings.Join(c.GetReplicas(), ","), breakers(c), gate,
		}
		if p.record {
			row = append(row, joined(c.GetAggregates(), (*cellgatev1.CellAggregate).GetName, ", "), strings.Join(c.GetTraits(), " "))
		}
		t.row(row...)
	}
	t.print()
	p.printf("%s", notes.String())
}

// showCell shows a cell and its whole gate.
func showCell(p *page, c *cellgatev1.Cell) {
	p.record = true
	showCells(p, []*cellgatev1.Cell{c})
	showGate(p, c.GetGate())
}

// breakers shows each replica's breaker: closed, or since when and why it is not.
func breakers(c *cellgatev1.Cell) string {
	var out []string
	for _, r := range c.GetReplicaStates() {
		text := strings.ReplaceAll(strings.ToLower(r.GetBreaker().String()), "_", "-")
		if r.GetBreaker() != cellgatev1.BreakerState_CLOSED {
			text += fmt.Sprintf(" since %s: %s", timeText(r.GetSince()), r.GetLastError())
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// cellStatus gives the status of a cell. When the cell does not answer, it adds the age of its numbers.
func cellStatus(c *cellgatev1.Cell) string {
	state := "available"
	switch {
	case !c.GetAvailable() && c.GetAnsweredAt() != nil:
		state = "unavailable " + strings.TrimSuffix(age(time.Now(), c.GetAnsweredAt().AsTime()), " ago")
	case !c.GetAvailable():
		state = "unavailable"
	case c.GetTableVersion() == "":
		state = "loading"
	case c.GetHosts() == 0:
		state = "no hosts"
	case c.GetHostsUp() == 0:
		state = "no hosts up"
	}
	if !c.GetEnabled() {
		state = "disabled, " + state
	}
	return state
}
