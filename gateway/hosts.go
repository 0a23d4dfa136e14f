package gateway

import (
	"context"

	"cellgate/gateway/cellclient"
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
