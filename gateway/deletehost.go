package gateway

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// deleteHost removes a host from its cell, if nothing holds it.
func (g *Gateway) deleteHost(ctx context.Context, req *cellgatev1.DeleteHostRequest) (*cellgatev1.DeleteHostResponse, error) {
	c, err := g.removeHost(ctx, req)
	attrs := []any{"host_uuid", req.GetHostUuid(), "reason", req.GetReason()}
	if c != nil {
		attrs = append(attrs, "cell", c.Name())
	}
	if err != nil {
		g.audit(ctx, "a host was not removed, or it is not known", err, attrs...)
		return nil, err
	}
	g.audit(ctx, "an operator removed a host", nil, attrs...)
	return &cellgatev1.DeleteHostResponse{Cell: c.Name()}, nil
}

func (g *Gateway) removeHost(ctx context.Context, req *cellgatev1.DeleteHostRequest) (*cellclient.Cell, error) {
	uuid := cellclient.Canonical(req.GetHostUuid())
	c, _, err := g.cellOfHost(ctx, req.GetCell(), uuid)
	switch {
	case err != nil:
		return nil, err
	case g.gates[c].Only():
		return c, fault.Invalid("host_uuid", "cell %s has the hosts of Nova's tables (legacy_only): delete the host there", c.Name())
	}
	_, err = cellclient.CallFor(ctx, c, uuid, g.cfg.ClaimBudget, &cellv1.RemoveHostRequest{HostUuid: uuid, Reason: req.GetReason(), By: whoAsks(ctx)}, cellv1.CellSchedulerClient.RemoveHost)
	return c, err
}
