package gateway

import (
	"context"
	"fmt"
	"slices"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// releaseClaim releases a claim in the cell that has it, whichever the request
// names; in every cell when none is known to have it, so that the claim is refused
// wherever it may still arrive. It fails when a cell that may have it, or may still
// get it, did not answer, and, changing nothing, when the claim is another
// consumer's. It gives the claim as it was found; nil when nobody knew it.
func (g *Gateway) releaseClaim(ctx context.Context, req *cellgatev1.ReleaseClaimRequest) (*cellgatev1.Claim, error) {
	named, err := g.cellsFor(req.GetCell())
	if err != nil {
		return nil, err
	}
	ref := &cellv1.ClaimRef{ClaimId: req.GetClaimId(), ConsumerUuid: canonical(req.GetConsumerUuid())}
	in, found := g.whereIs(ctx, named, ref.GetClaimId())
	if in == nil && len(named) < len(g.cells) {
		in, found = g.whereIs(ctx, without(g.cells, named[0]), ref.GetClaimId())
	}
	cells := g.cells
	if in != nil {
		if found.GetConsumerUuid() != ref.GetConsumerUuid() {
			return nil, fault.Invalid("consumer_uuid", "claim %s is of another consumer", ref.GetClaimId()).
				With("cell", in.cfg.Name).With("claim_id", ref.GetClaimId())
		}
		cells = []*cell{in}
	}
	replies := askAll(ctx, cells, func(ctx context.Context, c *cell) (struct{}, error) {
		_, err := c.operateOne(ctx, g.cfg.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
		return struct{}{}, err
	})
	missing := false
	for _, r := range replies {
		switch {
		case r.err == nil:
		case couldNot(r.err):
			missing = true
		default:
			return nil, r.err
		}
	}
	if missing {
		return nil, notFound(replies, fmt.Sprintf("claim %s of consumer %s", req.GetClaimId(), req.GetConsumerUuid()))
	}
	g.unpinReleased(ctx, found)
	return found, nil
}

// whereIs gives the cell that made a claim, and the claim, live or ended; nil when
// none of those that answer did. A tombstone, which a release leaves of a claim that
// never came, does not count.
func (g *Gateway) whereIs(ctx context.Context, cells []*cell, claimID string) (*cell, *cellgatev1.Claim) {
	made := func(c *cellgatev1.Claim) bool { return c.GetClaimId() == claimID && c.GetHostUuid() != "" }
	has := func(claims []*cellgatev1.Claim) bool { return slices.ContainsFunc(claims, made) }
	replies := search(ctx, g, cells, 0, has, func(ctx context.Context, c *cell) ([]*cellgatev1.Claim, error) {
		resp, err := call(ctx, c, g.cfg.ClaimBudget, &cellv1.ListClaimsRequest{ClaimId: claimID}, cellv1.CellSchedulerClient.ListClaims)
		return resp.GetClaims(), err
	})
	for _, r := range replies {
		for _, c := range r.got {
			if made(c) {
				return r.cell, c
			}
		}
	}
	return nil, nil
}

// without gives cells but for one.
func without(cells []*cell, one *cell) []*cell {
	var out []*cell
	for _, c := range cells {
		if c != one {
			out = append(out, c)
		}
	}
	return out
}
