package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// gateStates are the states of a gate as commands write them.
var gateStates = []string{"legacy", "shadow", "native"}

func newPin(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin CELL legacy|shadow|native",
		Short: "Hold a cell's gate where it is to be",
		Long: `Hold the gate of a cell in a state, whatever its agents and services say, until
"cellgate cells unpin". A state in which the cell would place nothing is refused: LEGACY
and SHADOW need a gateway that reads Nova's tables for the cell, NATIVE an agent that
reports a host. With --force it is pinned all the same, and the cell is unavailable. Where no
gateway reads Nova's tables, a pin at LEGACY or SHADOW that is let go leaves it so: pin the
cell at native. NATIVE is held also while old agents live: Nova's tables speak for hosts
without an agent then, as long as a gateway reads them.`,
		Example: `  cellgate cells pin cell1 native --reason "Nova's database is gone for good"`,
		Args: usageArgs(func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || !slices.Contains(gateStates, args[1]) {
				return fmt.Errorf("needs a cell and one of %s", strings.Join(gateStates, ", "))
			}
			return nil
		}),
	}
	reason := cmd.Flags().String("reason", "", "why; whoever finds the gate held reads it")
	force := cmd.Flags().Bool("force", false, "pin it also where the cell cannot serve: it is unavailable then")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *reason == "" {
			return usage(cmd, fmt.Errorf("--reason: must say why"))
		}
		return updateCell(c, cmd, &cellgatev1.UpdateCellRequest{
			Cell: args[0], Reason: *reason, Force: *force, GatePin: cellgatev1.Gate_State(cellgatev1.Gate_State_value[strings.ToUpper(args[1])]),
		})
	}
	return cmd
}

func newUnpin(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unpin CELL",
		Short: "Let a cell's gate move again",
		Long: `Let the gate of a cell move again by the rules, at once. Where no gateway reads Nova's
tables, the gate keeps its state: pin it at native first. A gate that is not pinned is
refused: nothing is changed.`,
		Example: `  cellgate cells unpin cell1 --reason "rack 7 is done"`,
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	reason := cmd.Flags().String("reason", "", "why, for the audit log")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return updateCell(c, cmd, &cellgatev1.UpdateCellRequest{Cell: args[0], Reason: *reason})
	}
	return cmd
}

func updateCell(c *client, cmd *cobra.Command, req *cellgatev1.UpdateCellRequest) error {
	return ask(c, cmd, cellgatev1.NewCellsClient, cellgatev1.CellsClient.UpdateCell, req,
		func(p *page, m *cellgatev1.UpdateCellResponse) { showCell(p, m.GetCell()) })
}

// mostWait bounds how many bytes of a gate's reason to wait the table shows.
const mostWait = 60

// gateText shows a gate: its state and since when, whether an operator pinned it, and how many hosts it
// waits for, or the first other reason to wait. It gives "" for a cell without a gate.
func gateText(g *cellgatev1.Gate) string {
	if g == nil {
		return ""
	}
	if g.GetState() == cellgatev1.Gate_STATE_UNSPECIFIED {
		return "not known"
	}
	text := g.GetState().String()
	if g.GetSince() != nil {
		text += " since " + timeText(g.GetSince())
	}
	switch waits := g.GetWaitsFor(); {
	case g.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED:
		text += ", pinned"
	case g.GetLaggingHosts() > 0 && g.GetState() == cellgatev1.Gate_NATIVE:
		text += ", " + counted(int(g.GetLaggingHosts()), "host") + " without a new agent"
	case isWithoutAgents(g):
		text += ", no agent has registered: hosts come from Nova's tables"
	case g.GetLaggingHosts() > 0:
		text += ", waits for " + counted(int(g.GetLaggingHosts()), "host")
	case len(waits) > 0:
		text += ", waits for: " + cut(waits[0], mostWait)
	}
	if g.GetState() == cellgatev1.Gate_SHADOW {
		text += fmt.Sprintf(", %d of %d hosts differ", g.GetDifferingHosts(), g.GetHosts())
	}
	return text
}

// isWithoutAgents reports whether a cell has hosts, but no host has an agent, as in an unmodified Nova.
func isWithoutAgents(g *cellgatev1.Gate) bool {
	return g.GetState() == cellgatev1.Gate_LEGACY && g.GetHosts() > 0 && g.GetRegistered() == 0
}

// cut shortens a text to at most n bytes, at a space.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := strings.LastIndexByte(text[:n], ' ')
	return text[:max(end, 0)] + " …"
}

// showGate shows all that the gateway says of a gate.
func showGate(p *page, g *cellgatev1.Gate) {
	if g == nil || g.GetState() == cellgatev1.Gate_STATE_UNSPECIFIED {
		return
	}
	p.printf("\ngate %s, epoch %d: %s\n", g.GetState(), g.GetEpoch(), printable(g.GetReason()))
	if g.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED {
		p.printf("pinned at %s: %s\n", g.GetPin(), printable(g.GetPinReason()))
	}
	if g.GetServices() > 0 {
		p.printf("services that count: %d, of version %d or newer, %d is required\n", g.GetServices(), g.GetMinVersion(), g.GetRequiredVersion())
		p.printf("hosts with an agent: %d of %d\n", g.GetRegistered(), g.GetHosts())
	}
	for _, wait := range g.GetWaitsFor() {
		p.printf("waits for: %s\n", wait)
	}
	lagging := p.table("NOT NEW", "NOVA-COMPUTE", "AGENT", "LAST SEEN (MAY BE A MINUTE BEHIND)", "WHY")
	for _, h := range g.GetLagging() {
		agent := ""
		if h.GetAgentVersion() > 0 {
			agent = fmt.Sprint(h.GetAgentVersion())
		}
		lagging.row(h.GetHost(), h.GetServiceVersion(), agent, timeText(h.GetLastSeen()), h.GetReason())
	}
	lagging.printBelow()
	readers := p.table("GATEWAY", "ROWS UP TO", "BEHIND THE NEWEST BY", "IMPORTS", "REQUIRES", "SERVICE DOWN TIME", "CANNOT READ")
	for _, r := range g.GetReaders() {
		by, imports, requires, down := "", "", "", ""
		if r.GetReadTo() != nil {
			by = r.GetLag().AsDuration().Round(time.Second).String()
		}
		if r.GetImports() {
			imports = "yes"
		}
		if r.RequiredVersion != nil {
			requires = fmt.Sprint(r.GetRequiredVersion())
		}
		if r.GetServiceDownTime() != nil {
			down = r.GetServiceDownTime().AsDuration().String()
		}
		readers.row(r.GetGateway(), timeText(r.GetReadTo()), by, imports, requires, down, r.GetUnreadable())
	}
	readers.printBelow()
	differ := p.table("DIFFERS FROM ITS ROW", "DETAIL")
	for _, d := range g.GetHostDifferences() {
		differ.row(d.GetHost(), d.GetDetail())
	}
	differ.printBelow()
}

// timeText gives a time as tables show it; "" for none.
func timeText(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Format(time.RFC3339)
}
