package claims

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxSourceLooks is how often the source of a move is looked at anew because it was changed
// before its release came.
const maxSourceLooks = 3

// releaseSource gives back what a confirmed claim replaces, when that is in
// another cell: in its own, the cell has done it. An error leaves both claims
// confirmed; confirming again goes on here. A source that is another consumer's by
// now (it was transferred) is not the move's to release.
//
// seen is the source as it was before the claim was found confirmed, nil when it was not
// seen. The release names it as it was then: one that comes after the move was given up, and
// the source transferred back, finds another one (docs/adr/0022).
func (svc *Service) releaseSource(ctx context.Context, in *cellclient.Cell, confirmed *cellv1.ClaimOutcome, seen *cellgatev1.Claim) error {
	c, name := confirmed.GetClaim(), confirmed.GetClaimOrigin().GetMovesCell()
	if c.GetMovesClaimId() == "" || c.GetTransferredFrom() != "" || name == "" || name == in.Name() {
		return nil
	}
	from := svc.cells.Named(name)
	if from == nil {
		svc.log.WarnContext(ctx, "the source of a move is in a cell that is not configured", "cell", name,
			"instance", c.GetConsumerUuid(), "claim", c.GetMovesClaimId())
		return nil
	}
	var err error
	for range 1 + maxSourceLooks {
		if seen == nil {
			var standing error
			if seen, standing, err = svc.findSource(ctx, in, from, c); standing != nil {
				return standing
			}
		}
		if err == nil && seen != nil {
			err = svc.releaseSeen(ctx, from, c, seen)
		}
		if fault.KindOf(err) != fault.StaleGeneration {
			break
		}
		seen = nil
	}
	return svc.sourceLeft(ctx, c, name, err)
}

// findSource gives the source of a move that is left to release, nil for none, and makes
// sure after that that the claim which took over is confirmed still: standing says why it is
// not.
func (svc *Service) findSource(ctx context.Context, in, from *cellclient.Cell, c *cellgatev1.Claim) (seen *cellgatev1.Claim, standing, err error) {
	source, err := from.FindClaim(ctx, svc.cfg.ClaimBudget, c.GetMovesClaimId())
	switch {
	case err != nil:
		return nil, nil, err
	case source == nil, source.GetState() == cellgatev1.ClaimState_RELEASED, source.GetState() == cellgatev1.ClaimState_REJECTED:
		svc.unpinReleased(ctx, source)
		return nil, nil, nil
	case source.GetConsumerUuid() != c.GetConsumerUuid():
		svc.notTheMoves(ctx, from, c)
		return nil, nil, nil
	}
	ref := &cellv1.ClaimRef{ClaimId: c.GetClaimId(), ConsumerUuid: c.GetConsumerUuid()}
	_, standing = in.OperateOne(ctx, svc.cfg.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: ref}})
	return source, standing, nil
}

// releaseSeen releases the source of a move unless it was changed since it was seen.
func (svc *Service) releaseSeen(ctx context.Context, from *cellclient.Cell, c, seen *cellgatev1.Claim) error {
	ref := &cellv1.ClaimRef{ClaimId: seen.GetClaimId(), ConsumerUuid: c.GetConsumerUuid(), UnchangedSince: seen.GetUpdatedAt()}
	released, err := from.OperateOne(ctx, svc.cfg.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
	switch {
	case err == nil:
		svc.unpinReleased(ctx, released.GetClaim())
	case fault.KindOf(err) == fault.InvalidRequest:
		svc.notTheMoves(ctx, from, c)
		return nil
	}
	return err
}

func (svc *Service) notTheMoves(ctx context.Context, from *cellclient.Cell, c *cellgatev1.Claim) {
	svc.log.InfoContext(ctx, "the source of a move is another consumer's", "cell", from.Name(), "claim", c.GetMovesClaimId())
}

// sourceLeft is the error of a confirmed claim whose source could not be released; nil when
// err is.
func (svc *Service) sourceLeft(ctx context.Context, c *cellgatev1.Claim, name string, err error) error {
	kind := fault.KindOf(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case kind != fault.OutcomeUnknown && kind != fault.Overloaded:
		kind = fault.CellUnavailable
	}
	return fault.Wrap(kind, err, "claim %s is confirmed, but the claim it replaces, %s, could not be released in cell %s: confirm it again",
		c.GetClaimId(), c.GetMovesClaimId(), name).
		With("cells", name).With("cell", name).With("claim_id", c.GetMovesClaimId())
}
