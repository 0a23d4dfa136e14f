package gateway

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/security"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// deleteHost removes a host from its cell, if nothing holds it.
func (g *Gateway) deleteHost(ctx context.Context, req *cellgatev1.DeleteHostRequest) (*cellgatev1.DeleteHostResponse, error) {
	c, err := g.removeHost(ctx, req)
	told := []any{"host_uuid", req.GetHostUuid(), "reason", req.GetReason()}
	if c != nil {
		told = append(told, "cell", c.Name())
	}
	if who := security.FromContext(ctx); who != nil {
		told = append(told, "role", string(who.Role), "name", who.Name, "from", security.AddressOf(ctx))
	}
	if err != nil {
		g.log.InfoContext(ctx, "a host was not removed, or it is not known", append(told, "outcome", string(fault.KindOf(err)))...)
		return nil, err
	}
	g.log.InfoContext(ctx, "an operator removed a host", append(told, "outcome", "OK")...)
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
