package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newCells(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cells [CELL]",
		Short: "Show the cells a gateway knows, and hold their gates",
		Long: `Show the cells a gateway knows. GATE says, of a cell under upgrade, who reports its
hosts: Nova's tables (LEGACY, SHADOW) or agents (NATIVE). Lines below the table say why a cell is not available
and what its gate waits for; with a CELL all that there is to say of the cell is shown.`,
		Example: `  cellgate cells
  cellgate cells cell1 -o json
  cellgate cells pin cell1 native --reason "Nova's database is gone for good"
  cellgate cells unpin cell1 --reason "its tables are read again"`,
		Args: usageArgs(oneArgOr),
	}
	c := newClient(cmd, t)
	watchFlag(cmd)
	sortFlag(cmd)
	cmd.AddCommand(newPin(c), newUnpin(c))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return ask(c, cmd, cellgatev1.NewCellsClient, cellgatev1.CellsClient.GetCell, &cellgatev1.GetCellRequest{Cell: args[0]},
				func(p *page, m *cellgatev1.GetCellResponse) { showCell(p, m.GetCell()) })
		}
		return ask(c, cmd, cellgatev1.NewCellsClient, cellgatev1.CellsClient.ListCells, &cellgatev1.ListCellsRequest{},
			func(p *page, m *cellgatev1.ListCellsResponse) { showCells(p, m.GetCells()) })
	}
	return cmd
}

// listWidth is how many columns a line of the list of cells has for a reason, at most.
const listWidth = 100

// showCells shows the cells, then why some are not available and what their gates wait for.
func showCells(p *page, cells []*cellgatev1.Cell) {
	headers := []string{"CELL", "STATE", "HOSTS UP", "PENDING", "CONFIRMED", "VCPU", "MEMORY GIB", "+DISK GIB", "+OTHER", "+ZONES", "+REPLICAS", "+BREAKERS", "GATE"}
	if p.record { // of one cell more is known
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
		row := []any{
			c.GetCell(), cellStatus(c), of(c.GetHostsUp(), c.GetHosts()), c.GetClaimsPending(), c.GetClaimsConfirmed(), r.cpu, r.memory, r.disk,
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

// showCell shows a cell, and the whole of its gate.
func showCell(p *page, c *cellgatev1.Cell) {
	p.record = true
	showCells(p, []*cellgatev1.Cell{c})
	showGate(p, c.GetGate())
}

// breakers shows the breaker of each replica: closed, or since when it is not and
// why.
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

// cellStatus is the status of a cell in a word or two.
func cellStatus(c *cellgatev1.Cell) string {
	state := "available"
	switch {
	case !c.GetAvailable():
		state = "unavailable"
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
