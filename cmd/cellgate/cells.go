package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

func newCells(t terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cells [NAME]",
		Short: "Show the cells a gateway knows, and hold their gates",
		Long: `Show the cells a gateway knows. GATE says, of a cell under upgrade from Nova's own
tables, where its candidates come from. Lines below the table say why a cell is not available
and what its gate waits for; with a NAME all that there is to say of the cell is shown.`,
		Example: `  cellgate cells
  cellgate cells cell1 -o json
  cellgate cells pin cell1 native --reason "Nova's database is gone for good"
  cellgate cells unpin cell1`,
		Args: usageArgs(oneArgOr),
	}
	c := newClient(cmd, t)
	cmd.AddCommand(newPin(c), newUnpin(c))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return ask(c, cmd, cellgatev1.NewCellsClient, cellgatev1.CellsClient.GetCell, &cellgatev1.GetCellRequest{Cell: args[0]},
				func(w io.Writer, m *cellgatev1.GetCellResponse) error { return showCell(w, m.GetCell()) })
		}
		return ask(c, cmd, cellgatev1.NewCellsClient, cellgatev1.CellsClient.ListCells, &cellgatev1.ListCellsRequest{},
			func(w io.Writer, m *cellgatev1.ListCellsResponse) error { return listCells(w, m.GetCells()) })
	}
	return cmd
}

// listWidth is how many columns a line of the list of cells has for a reason, at most.
const listWidth = 100

// listCells shows what of each cell fits 100 columns, then why cells are not available and
// what their gates wait for. "cellgate cells NAME" shows the rest.
func listCells(w io.Writer, cells []*cellgatev1.Cell) error {
	t := newTable(w, "CELL", "STATE", "HOSTS UP", "PENDING", "CONFIRMED", "VCPU", "MEMORY GIB", "GATE")
	var notes strings.Builder
	for _, c := range cells {
		cpu, memory, gate := "", "", ""
		for _, r := range c.GetResources() {
			switch r.GetResourceClass() {
			case "VCPU":
				cpu = of(r.GetUsed(), r.GetCapacity())
			case "MEMORY_MB":
				memory = of(gib(r.GetUsed()), gib(r.GetCapacity()))
			}
		}
		if g := c.GetGate(); g != nil {
			text := gateText(g)
			gate, _, _ = strings.Cut(text, " since ")
			if strings.Contains(text, ", ") {
				gate = g.GetState().String()
				fmt.Fprintf(&notes, "%s: gate %s\n", c.GetCell(), printable(text))
			}
		}
		if c.GetReason() != "" {
			fmt.Fprintf(&notes, "%s: %s\n", c.GetCell(), cut(printable(c.GetReason()), max(listWidth-len(c.GetCell())-len(": ")-len(" …"), mostWait)))
		}
		t.row(c.GetCell(), cellStatus(c), of(c.GetHostsUp(), c.GetHosts()), c.GetClaimsPending(), c.GetClaimsConfirmed(), cpu, memory, gate)
	}
	if err := t.end(); err != nil {
		return err
	}
	_, err := io.WriteString(w, notes.String())
	return err
}

// showCell shows a cell, and the whole of its gate.
func showCell(w io.Writer, c *cellgatev1.Cell) error {
	if err := showCells(w, []*cellgatev1.Cell{c}); err != nil {
		return err
	}
	return showGate(w, c.GetGate())
}

func showCells(w io.Writer, cells []*cellgatev1.Cell) error {
	t := newTable(w, "CELL", "STATE", "HOSTS UP", "PENDING", "CONFIRMED", "VCPU", "MEMORY GIB", "DISK GIB", "OTHER", "ZONES", "REPLICAS", "BREAKERS", "GATE")
	for _, c := range cells {
		cpu, memory, disk, other := "", "", "", []string(nil)
		for _, r := range c.GetResources() {
			switch r.GetResourceClass() {
			case "VCPU":
				cpu = of(r.GetUsed(), r.GetCapacity())
			case "MEMORY_MB":
				memory = of(gib(r.GetUsed()), gib(r.GetCapacity()))
			case "DISK_GB":
				disk = of(r.GetUsed(), r.GetCapacity())
			default:
				other = append(other, r.GetResourceClass()+" "+of(r.GetUsed(), r.GetCapacity()))
			}
		}
		t.row(c.GetCell(), cellState(c), of(c.GetHostsUp(), c.GetHosts()), c.GetClaimsPending(), c.GetClaimsConfirmed(),
			cpu, memory, disk, strings.Join(other, ", "), strings.Join(c.GetAvailabilityZones(), ","), strings.Join(c.GetReplicas(), ","), breakers(c), gateText(c.GetGate()))
	}
	return t.end()
}

// breakers shows the breaker of each replica: closed, or since when it is not and
// why.
func breakers(c *cellgatev1.Cell) string {
	var out []string
	for _, r := range c.GetReplicaStates() {
		text := strings.ReplaceAll(strings.ToLower(r.GetBreaker().String()), "_", "-")
		if r.GetBreaker() != cellgatev1.BreakerState_CLOSED {
			text += fmt.Sprintf(" since %s: %s", r.GetSince().AsTime().Format(time.RFC3339), r.GetLastError())
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// cellState is the status of a cell, and why.
func cellState(c *cellgatev1.Cell) string {
	if c.GetReason() == "" {
		return cellStatus(c)
	}
	return fmt.Sprintf("%s: %s", cellStatus(c), c.GetReason())
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
