package gateway

import (
	"context"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

const (
	// maxJoined is how many claims a decision that is read is joined with, and joinBudget
	// how long their cells have for it.
	maxJoined  = 64
	joinBudget = 250 * time.Millisecond

	// verdictFilter stands in reject counts for hosts that rejected a claim, with the reason.
	verdictFilter = "HostVerdict"
)

// rejectedBy notes that an order's host rejected it. The request keeps from that host
// from then on: the host has less than its cell knew of, whatever the next plan shows.
func (s *selection) rejectedBy(o claimOrder, r *cellv1.Refusal) {
	s.rejections = append(s.rejections, &cellgatev1.RejectedClaim{
		InstanceUuid: s.instances[o.index].String(), Cell: s.g.cells.All[o.cell].Name(),
		HostUuid: o.claim.GetHostUuid(), ServiceHost: o.host, ClaimId: o.claim.GetClaimId(),
		Reason: r.GetDetail(), Message: r.GetMessage(),
	})
}

// planned is the request as it is planned: without the hosts that rejected a claim of it.
func (s *selection) planned() *schedule.Request {
	if len(s.rejections) == 0 {
		return s.request
	}
	r := *s.request
	for _, x := range s.rejections {
		// It is a candidate's, which was read.
		id, err := schedule.ParseID(x.GetHostUuid())
		if err == nil && !slices.Contains(r.IgnoreUUIDs, id) {
			r.IgnoreUUIDs = append(r.IgnoreUUIDs, id)
		}
	}
	return &r
}

// blameHosts tells a cell's hosts that rejected a claim of the request from those that its
// caller told it to ignore.
func (s *selection) blameHosts(cell int, counts []*cellgatev1.RejectCount) []*cellgatev1.RejectCount {
	seen := map[string]struct{}{}
	for _, x := range s.rejections {
		if _, is := seen[x.GetHostUuid()]; is || x.GetCell() != s.g.cells.All[cell].Name() {
			continue
		}
		seen[x.GetHostUuid()] = struct{}{}
		counts = notIgnored(counts, verdictFilter, x.GetReason())
	}
	return counts
}

// join adds the claims of a decision's destinations as they are now. A cell that does
// not answer leaves its claims out: the decision is the answer.
func (g *Gateway) join(ctx context.Context, d *cellgatev1.Decision) {
	byCell := map[*cellclient.Cell][]string{}
	n := 0
	for _, x := range d.GetDestinations() {
		sel := x.GetSelected()
		if sel.GetClaimId() == "" || n == maxJoined {
			continue
		}
		for _, c := range g.cells.All {
			if c.Name() == sel.GetCell() {
				byCell[c] = append(byCell[c], sel.GetClaimId())
				n++
			}
		}
	}
	var cells []*cellclient.Cell
	for c := range byCell {
		cells = append(cells, c)
	}
	found := map[string]*cellgatev1.Claim{}
	for _, r := range cellclient.AskAll(ctx, cells, func(ctx context.Context, c *cellclient.Cell) ([]*cellgatev1.Claim, error) {
		ctx, cancel := context.WithTimeout(ctx, joinBudget)
		defer cancel()
		var list []*cellgatev1.Claim
		for _, id := range byCell[c] {
			got, err := cellclient.Call(ctx, c, joinBudget, &cellv1.ListClaimsRequest{ClaimId: id}, cellv1.CellSchedulerClient.ListClaims)
			if err != nil {
				return list, err
			}
			list = append(list, got.GetClaims()...)
		}
		return list, nil
	}) {
		for _, claim := range r.Got {
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

// notIgnored counts a host that the request kept from by itself, and that its cell counted
// with those that its caller told it to ignore, for what it was.
func notIgnored(counts []*cellgatev1.RejectCount, filter, detail string) []*cellgatev1.RejectCount {
	i := slices.IndexFunc(counts, func(r *cellgatev1.RejectCount) bool {
		return r.GetFilter() == schedule.HostFilter && r.GetDetail() == "ignored"
	})
	if i < 0 {
		return counts // another filter left it out before
	}
	counts = addReject(counts, &cellgatev1.RejectCount{Filter: schedule.HostFilter, Detail: "ignored", Hosts: -1})
	if counts[i].GetHosts() == 0 {
		counts = slices.Delete(counts, i, i+1)
	}
	return addReject(counts, &cellgatev1.RejectCount{Filter: filter, Detail: detail, Hosts: 1})
}
