package gateway

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/legacy/gatewatch"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// updateCell pins a cell's gate, or lets it move again. The cell's own scheduler
// holds the pin, so every gateway goes by it.
func (g *Gateway) updateCell(ctx context.Context, req *cellgatev1.UpdateCellRequest) (*cellgatev1.Cell, error) {
	c := g.cells.Named(req.GetCell())
	if c == nil {
		return nil, fault.New(fault.NotFound, "%s", g.cells.NoCell(req.GetCell()))
	}
	pin := req.GetGatePin()
	if pin != cellgatev1.Gate_STATE_UNSPECIFIED && req.GetReason() == "" {
		return nil, fault.Invalid("reason", "must say why the gate is held: whoever finds it held asks")
	}
	if g.gates[c].Only() && pin != cellgatev1.Gate_LEGACY {
		return nil, fault.Invalid("gate_pin", "cell %s has no scheduler but one in the gateway (legacy_only): its gate stays LEGACY", c.Name())
	}
	gate, err := g.pinGate(ctx, c, req)
	g.audit(ctx, "an operator pinned the gate of a cell, or let it go", err, "cell", c.Name(), "pin", pin.String(), "reason", req.GetReason(),
		"force", req.GetForce(), "state", gate.GetState().String(), "epoch", gate.GetEpoch())
	if err != nil {
		return nil, err
	}
	row, err := g.getCell(ctx, c.Name())
	if err != nil {
		return nil, err
	}
	row.Gate = gate
	return row, nil
}

func (g *Gateway) pinGate(ctx context.Context, c *cellclient.Cell, req *cellgatev1.UpdateCellRequest) (*cellgatev1.Gate, error) {
	who := whoAsks(ctx)
	if w := g.gates[c]; w != nil {
		return w.Pin(ctx, req, who)
	}
	return gatewatch.PinAt(ctx, c, req, who)
}
