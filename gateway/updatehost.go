package gateway

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// updateHost sets a host's admin state in the shard of its cell.
func (g *Gateway) updateHost(ctx context.Context, req *cellgatev1.UpdateHostRequest) (*cellgatev1.Host, error) {
	c, host, err := g.setAdminState(ctx, req)
	g.auditAdminState(ctx, c, req, host, err)
	return host, err
}

func (g *Gateway) setAdminState(ctx context.Context, req *cellgatev1.UpdateHostRequest) (*cellclient.Cell, *cellgatev1.Host, error) {
	uuid := cellclient.Canonical(req.GetHostUuid())
	c, known, err := g.cellOfHost(ctx, req.GetCell(), uuid)
	switch {
	case err != nil:
		return nil, nil, err
	case g.gates[c].Only():
		return c, nil, fault.Invalid("host_uuid", "cell %s has no scheduler but one in each gateway (legacy_only), which stores no admin state: disable the host's service in Nova", c.Name())
	}
	set := &cellv1.SetAdminStateRequest{
		HostUuid: uuid, State: req.GetAdminState(), Reason: req.GetReason(), By: whoAsks(ctx), Until: req.GetUntil(), Lasts: req.GetLasts(),
		KeepNova: g.gates[c].KnowsService(uuid), DefaultAvailabilityZone: g.cfg.DefaultAvailabilityZone,
	}
	change := func(generation int64) (*cellv1.SetAdminStateResponse, error) {
		set.AsOfGeneration = generation
		return cellclient.CallFor(ctx, c, uuid, g.cfg.ClaimBudget, set, cellv1.CellSchedulerClient.SetAdminState)
	}
	var resp *cellv1.SetAdminStateResponse
	if own := req.GetIfGeneration(); own > 0 {
		resp, err = change(own)
		err = cellclient.ChangeError(ctx, c, err)
	} else {
		resp, err = updateIfCurrent(ctx, g, c, uuid, known, change)
	}
	return c, resp.GetHost(), err
}

// auditAdminState logs that somebody took a host out of service, or back.
func (g *Gateway) auditAdminState(ctx context.Context, c *cellclient.Cell, req *cellgatev1.UpdateHostRequest, host *cellgatev1.Host, err error) {
	attrs := []any{"host_uuid", req.GetHostUuid(), "state", req.GetAdminState().String(), "reason", req.GetReason()}
	if c != nil {
		attrs = append(attrs, "cell", c.Name())
	}
	if u := host.GetAdmin().GetUntil(); u != nil {
		attrs = append(attrs, "until", u.AsTime())
	}
	what := "an operator set the admin state of a host"
	if err != nil {
		what = "the admin state of a host was not set, or the outcome is not known"
	}
	g.audit(ctx, what, err, attrs...)
}
