package claims

import (
	"context"
	"slices"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Find asks cells for the live claims of consumers on computes.
func (svc *Service) Find(ctx context.Context, cells []*cellclient.Cell, consumers ...string) []cellclient.Reply[[]*cellgatev1.Claim] {
	return cellclient.AskAll(ctx, cells, svc.liveClaims(consumers...))
}

// liveClaims is the call that asks a cell for the live claims of consumers on computes.
func (svc *Service) liveClaims(consumers ...string) func(context.Context, *cellclient.Cell) ([]*cellgatev1.Claim, error) {
	return func(ctx context.Context, c *cellclient.Cell) ([]*cellgatev1.Claim, error) {
		req := &cellv1.ListClaimsRequest{}
		for _, uuid := range consumers {
			req.ConsumerUuids = append(req.ConsumerUuids, cellclient.Canonical(uuid))
		}
		resp, err := cellclient.Call(ctx, c, svc.Cells.ClaimBudget, req, cellv1.CellSchedulerClient.ListClaims)
		return slices.DeleteFunc(resp.GetClaims(), func(c *cellgatev1.Claim) bool { return !OnCompute(c) }), err
	}
}

// hasClaim reports whether one of some claims has an id.
func hasClaim(claims []*cellgatev1.Claim, id string) bool {
	return slices.ContainsFunc(claims, func(c *cellgatev1.Claim) bool { return c.GetClaimId() == id })
}

// Get gives the live claim of a consumer, and the other claim of a move. best is first in the
// order of CompareClaims: of a move, the source until the move is confirmed. After a claim was
// found, Get waits for silent cells only for ProposeBudget, since a second claim is rare.
func (svc *Service) Get(ctx context.Context, req *cellgatev1.GetClaimRequest) (best, other *cellgatev1.Claim, err error) {
	cells, err := svc.Cells.Selected(req.GetCell())
	if err != nil {
		return nil, nil, err
	}
	has := func(claims []*cellgatev1.Claim) bool { return len(claims) > 0 }
	replies := cellclient.Search(ctx, svc.Cells, cells, svc.Cells.ProposeBudget, has, svc.liveClaims(req.GetConsumerUuid()))
	for _, r := range replies {
		for _, c := range r.Got {
			if ConfirmedApart(c, best) {
				svc.LogDuplicate(ctx, best, c)
			}
			if best == nil || CompareClaims(c, best) < 0 {
				best, c = c, best
			}
			if c != nil && Pair(c, best) {
				other = c
			}
		}
	}
	if best == nil {
		return nil, nil, cellclient.NotFound(replies, "live claim of consumer "+req.GetConsumerUuid())
	}
	return best, other, nil
}

// unpinReleased removes a released claim's hold of its group's pin, in the background. A
// group without a pin is not changed; c may be nil.
func (svc *Service) unpinReleased(ctx context.Context, c *cellgatev1.Claim) {
	if c.GetGroupUuid() == "" {
		return
	}
	svc.Cells.Background(ctx, func(ctx context.Context) { svc.Unpin(ctx, c.GetGroupUuid(), []string{c.GetClaimId()}) })
}

// List lists live claims by cell, then by claim_id.
func (svc *Service) List(ctx context.Context, req *cellgatev1.ListClaimsRequest) (*cellgatev1.ListClaimsResponse, error) {
	var consumers []string
	if req.GetConsumerUuid() != "" {
		consumers = []string{cellclient.Canonical(req.GetConsumerUuid())}
	}
	page, next, unavailable, err := cellclient.Pages(svc.Cells, req,
		func(c *cellclient.Cell, size int32, from cellclient.PageToken) ([]*cellgatev1.Claim, bool, error) {
			got, err := cellclient.Call(ctx, c, svc.Cells.ClaimBudget, &cellv1.ListClaimsRequest{
				ConsumerUuids: consumers, HostUuid: cellclient.Canonical(req.GetHostUuid()), ProjectId: req.GetProjectId(), PageSize: size, After: from.After,
			}, cellv1.CellSchedulerClient.ListClaims)
			return got.GetClaims(), got.GetMore(), err
		},
		func(c *cellgatev1.Claim) cellclient.PageToken { return cellclient.PageToken{After: c.GetClaimId()} })
	if err != nil {
		return nil, err
	}
	return &cellgatev1.ListClaimsResponse{Claims: page, NextPageToken: next, UnavailableCells: unavailable}, ctx.Err()
}
