package gateway

import (
	"context"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// listHosts lists hosts by cell, then by service host.
func (g *Gateway) listHosts(ctx context.Context, req *cellgatev1.ListHostsRequest) (*cellgatev1.ListHostsResponse, error) {
	resp := &cellgatev1.ListHostsResponse{}
	var err error
	resp.NextPageToken, resp.UnavailableCells, err = g.cells.Pages(req,
		func(c *cellclient.Cell, size int32, from cellclient.PageToken) (int, cellclient.PageToken, bool, error) {
			got, err := cellclient.Call(ctx, c, g.cfg.ClaimBudget, &cellv1.ListHostsRequest{
				AvailabilityZone: req.GetAvailabilityZone(), NameContains: req.GetNameContains(), Trait: req.GetTrait(),
				PageSize: size, AfterServiceHost: from.After, AfterHostUuid: from.AfterUUID,
				DefaultAvailabilityZone: g.cfg.DefaultAvailabilityZone,
			}, cellv1.CellSchedulerClient.ListHosts)
			if err != nil {
				return 0, cellclient.PageToken{}, false, err
			}
			rows := cellclient.FitPage(resp.Hosts, got.GetHosts())
			more := got.GetMore() || len(rows) < len(got.GetHosts())
			resp.Hosts = append(resp.Hosts, rows...)
			if len(rows) == 0 {
				return 0, cellclient.PageToken{}, more, nil
			}
			last := rows[len(rows)-1]
			return len(rows), cellclient.PageToken{After: last.GetServiceHost(), AfterUUID: last.GetHostUuid()}, more, nil
		})
	if err != nil {
		return nil, err
	}
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
