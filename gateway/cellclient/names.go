package cellclient

import (
	"context"
	"strings"

	"cellgate/internal/suggest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// namesAtOnce bounds the names in one call to a cell, which answers with at most 1,000 hosts.
const namesAtOnce = 250

// HostsNamed gives the hosts whose service host or node name equals one of names.
func HostsNamed(ctx context.Context, cells []*Cell, names []string) []Reply[[]*cellgatev1.Host] {
	return AskAll(ctx, cells, func(ctx context.Context, c *Cell) (all []*cellgatev1.Host, err error) {
		for left := names; len(left) > 0 && err == nil; {
			n := min(len(left), namesAtOnce)
			last := &cellgatev1.Host{}
			for more := true; more && err == nil; {
				var got *cellv1.ListHostsResponse
				got, err = Call(ctx, c, c.ClaimBudget, &cellv1.ListHostsRequest{
					Names: left[:n], PageSize: 1000, AfterServiceHost: last.GetServiceHost(), AfterHostUuid: last.GetHostUuid(),
				}, cellv1.CellSchedulerClient.ListHosts)
				all = append(all, got.GetHosts()...)
				if more = got.GetMore() && len(got.GetHosts()) > 0; more {
					last = got.GetHosts()[len(got.GetHosts())-1]
				}
			}
			left = left[n:]
		}
		return all, err
	})
}

// SimilarHost gives the service host, over all cells that answer, that is most similar to name; empty if none is
// similar.
func (cs *Cells) SimilarHost(ctx context.Context, name string) string {
	replies := AskAll(ctx, cs.All, func(ctx context.Context, c *Cell) (string, error) {
		got, err := Call(ctx, c, c.ClaimBudget, &cellv1.ListHostsRequest{SimilarTo: name}, cellv1.CellSchedulerClient.ListHosts)
		return got.GetSimilar(), err
	})
	best, least := "", 0
	for _, r := range replies {
		if d := suggest.Distance(strings.ToLower(name), strings.ToLower(r.Got)); r.Got != "" && (best == "" || d < least) {
			best, least = r.Got, d
		}
	}
	return best
}
