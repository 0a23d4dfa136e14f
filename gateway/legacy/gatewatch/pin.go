package gatewatch

import (
	"context"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Pin pins the gate, once no other call to the cell is under way.
func (w *Gate) Pin(ctx context.Context, req *cellgatev1.UpdateCellRequest, who string) (*cellgatev1.Gate, error) {
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	defer w.leave()
	return w.pinLocked(ctx, req, who)
}

// pinLocked pins the gate and stores the gate in the answer. It needs asking.
func (w *Gate) pinLocked(ctx context.Context, req *cellgatev1.UpdateCellRequest, who string) (*cellgatev1.Gate, error) {
	gate, err := PinAt(ctx, w.cell, req, who)
	if err != nil {
		return nil, err
	}
	w.learn(ctx, gate)
	return gate, nil
}

func PinAt(ctx context.Context, c *cellclient.Cell, req *cellgatev1.UpdateCellRequest, who string) (*cellgatev1.Gate, error) {
	pin := &cellv1.PinGateRequest{Pin: req.GetGatePin(), Reason: req.GetReason(), Who: who, Force: req.GetForce()}
	resp, err := cellclient.CallFor(ctx, c, c.Name(), c.ClaimBudget, pin, cellv1.CellSchedulerClient.PinGate)
	if err != nil {
		return nil, err
	}
	return resp.GetGate(), nil
}
