package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// gateStates are the words for the states of a gate.
var gateStates = []string{"legacy", "shadow", "native"}

func newPin(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin CELL legacy|shadow|native",
		Short: "Hold a cell's gate where it is to be",
		Long: `Hold the gate of a cell in a state, whatever its agents and services say, until
"cellgate cells unpin". All gateways go by it. NATIVE is held there also while old agents
live: hosts that no new agent registered are not found then.`,
		Example: `  cellgate cells pin cell1 legacy --reason "agents of rack 7 are being replaced"
  cellgate cells pin cell1 native --reason "the legacy database is gone for good"`,
		Args: usageArgs(func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || !slices.Contains(gateStates, args[1]) {
				return fmt.Errorf("needs a cell and one of %s", strings.Join(gateStates, ", "))
			}
			return nil
		}),
	}
	reason := cmd.Flags().String("reason", "", "why; whoever finds the gate held reads it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *reason == "" {
			return usage(cmd, fmt.Errorf("--reason: must say why"))
		}
		return updateCell(c, cmd, &cellgatev1.UpdateCellRequest{
			Cell: args[0], Reason: *reason, GatePin: cellgatev1.Gate_State(cellgatev1.Gate_State_value[strings.ToUpper(args[1])]),
		})
	}
	return cmd
}

func newUnpin(c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "unpin CELL",
		Short:   "Let a cell's gate move again",
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
	return call(c, cmd, func(ctx context.Context, conn *grpc.ClientConn) (*cellgatev1.UpdateCellResponse, error) {
		return cellgatev1.NewCellsClient(conn).UpdateCell(ctx, req)
	}, func(w io.Writer, m *cellgatev1.UpdateCellResponse) error {
		return showCells(w, []*cellgatev1.Cell{m.GetCell()})
	})
}

// maxWaits is how many things that a gate waits for the table has.
const maxWaits = 2

// gateText shows a gate: its state, epoch and since when, who holds it, and what it
// waits for. "" for a cell without one.
func gateText(g *cellgatev1.Gate) string {
	if g == nil {
		return ""
	}
	if g.GetState() == cellgatev1.Gate_STATE_UNSPECIFIED {
		return "not known: " + g.GetReason()
	}
	text := fmt.Sprintf("%s, epoch %d", g.GetState(), g.GetEpoch())
	if g.GetSince() != nil {
		text += " since " + g.GetSince().AsTime().Format(time.RFC3339)
	}
	if g.GetPin() != cellgatev1.Gate_STATE_UNSPECIFIED {
		text += ", pinned"
		if g.GetPinReason() != "" {
			text += " (" + g.GetPinReason() + ")"
		}
	}
	if waits := g.GetWaitsFor(); len(waits) > 0 {
		text += ", waits for: " + strings.Join(waits[:min(maxWaits, len(waits))], "; ")
		if more := len(waits) - maxWaits; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
	}
	if g.GetState() == cellgatev1.Gate_SHADOW {
		text += fmt.Sprintf(", %d compared, %d differed", g.GetCompared(), g.GetDiffered())
	}
	return text
}
