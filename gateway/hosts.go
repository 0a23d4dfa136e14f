package gateway

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// listHosts lists hosts by cell, then by service host.
func (g *Gateway) listHosts(ctx context.Context, req *cellgatev1.ListHostsRequest) (*cellgatev1.ListHostsResponse, error) {
	page, next, unavailable, err := cellclient.Pages(g.cells, req,
		func(c *cellclient.Cell, size int32, from cellclient.PageToken) ([]*cellgatev1.Host, bool, error) {
			got, err := cellclient.Call(ctx, c, g.cfg.ClaimBudget, &cellv1.ListHostsRequest{
				AvailabilityZone: req.GetAvailabilityZone(), NameContains: req.GetNameContains(), Trait: req.GetTrait(),
				PageSize: size, AfterServiceHost: from.After, AfterHostUuid: from.AfterUUID,
				DefaultAvailabilityZone: g.cfg.DefaultAvailabilityZone,
			}, cellv1.CellSchedulerClient.ListHosts)
			return got.GetHosts(), got.GetMore(), err
		},
		func(h *cellgatev1.Host) cellclient.PageToken {
			return cellclient.PageToken{After: h.GetServiceHost(), AfterUUID: h.GetHostUuid()}
		})
	if err != nil {
		return nil, err
	}
	resp := &cellgatev1.ListHostsResponse{Hosts: page, NextPageToken: next, UnavailableCells: unavailable}
	if len(resp.GetHosts())+len(req.GetPageToken())+len(resp.GetNextPageToken())+len(resp.GetUnavailableCells()) == 0 {
		resp.UnknownValues = g.unknownFilters(ctx, req)
	}
	return resp, ctx.Err()
}

// getHost searches all cells for a host; at most one cell has it.
func (g *Gateway) getHost(ctx context.Context, uuid string) (*cellgatev1.Host, error) {
	has := func(hosts []*cellgatev1.Host) bool { return len(hosts) > 0 }
	replies := cellclient.Search(ctx, g.cells, g.cells.All, 0, has, func(ctx context.Context, c *cellclient.Cell) ([]*cellgatev1.Host, error) {
		got, err := cellclient.Call(ctx, c, g.cfg.ClaimBudget, &cellv1.ListHostsRequest{
			HostUuid: cellclient.Canonical(uuid), PageSize: 1, WantNamespaces: true, DefaultAvailabilityZone: g.cfg.DefaultAvailabilityZone,
		}, cellv1.CellSchedulerClient.ListHosts)
		return got.GetHosts(), err
	})
	for _, r := range replies {
		if len(r.Got) > 0 {
			return r.Got[0], nil
		}
	}
	return nil, cellclient.NotFound(replies, "host "+uuid)
}

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
