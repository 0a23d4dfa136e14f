package decisions

import (
	"context"
	"maps"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxJoined bounds the claims that are read with a decision; joinBudget bounds that read.
const (
	maxJoined  = 64
	joinBudget = 250 * time.Millisecond
)

// join adds the present state of the claims of a decision's destinations. If a cell does not
// answer, its claims are left out.
func (r *Recorder) join(ctx context.Context, d *cellgatev1.Decision) {
	byCell := map[*cellclient.Cell][]string{}
	n := 0
	for _, x := range d.GetDestinations() {
		sel := x.GetSelected()
		if c := r.cells.Named(sel.GetCell()); c != nil && sel.GetClaimId() != "" && n < maxJoined {
			byCell[c] = append(byCell[c], sel.GetClaimId())
			n++
		}
	}
	found := map[string]*cellgatev1.Claim{}
	for _, reply := range cellclient.AskAll(ctx, slices.Collect(maps.Keys(byCell)), func(ctx context.Context, c *cellclient.Cell) ([]*cellgatev1.Claim, error) {
		got, err := cellclient.Call(ctx, c, joinBudget, &cellv1.ListClaimsRequest{ClaimIds: byCell[c]}, cellv1.CellSchedulerClient.ListClaims)
		return got.GetClaims(), err
	}) {
		for _, claim := range reply.Got {
			found[claim.GetClaimId()] = claim
		}
	}
	for _, x := range d.GetDestinations() {
		if claim := found[x.GetSelected().GetClaimId()]; claim != nil {
			d.Claims = append(d.Claims, &cellgatev1.DecisionClaim{
				InstanceUuid: x.GetInstanceUuid(), ClaimId: claim.GetClaimId(), Cell: claim.GetCell(),
				HostUuid: claim.GetHostUuid(), ServiceHost: claim.GetServiceHost(), State: claim.GetState(),
				Verdict: claim.GetVerdict(), Rejections: claim.GetRejections(),
			})
		}
	}
}
