package claims

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxSourceLooks bounds how often the source of a move is read again after a change overtook
// its release.
const maxSourceLooks = 3

// releaseSource releases the claim that a confirmed claim replaces, if it is in another cell;
// a source in the same cell is already released by the cell. After an error both claims stay
// confirmed, and confirming again resumes here. A source that was transferred to another
// consumer is not released.
//
// seen is the source as it was before the claim was found confirmed; nil if it was not seen.
// The release requires that the source has not changed since. So a late release fails if the
// move was given up and the source transferred back (docs/adr/0022).
func (svc *Service) releaseSource(ctx context.Context, in *cellclient.Cell, confirmed *cellv1.ClaimOutcome, seen *cellgatev1.Claim) error {
	c, name := confirmed.GetClaim(), confirmed.GetClaimOrigin().GetMovesCell()
	if c.GetMovesClaimId() == "" || c.GetTransferredFrom() != "" || name == "" || name == in.Name() {
		return nil
	}
	from := svc.Cells.Named(name)
	if from == nil {
		svc.Log.WarnContext(ctx, "the source of a move is in a cell that is not configured", "cell", name,
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

// findSource gives the source of a move that is left to release; nil for none. It then makes
// sure that the claim which replaced it is still confirmed; standing says why it is not.
func (svc *Service) findSource(ctx context.Context, in, from *cellclient.Cell, c *cellgatev1.Claim) (seen *cellgatev1.Claim, standing, err error) {
	source, err := from.FindClaim(ctx, svc.Cells.ClaimBudget, c.GetMovesClaimId())
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
	_, standing = in.OperateOne(ctx, svc.Cells.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: ref}})
	return source, standing, nil
}

// releaseSeen releases the source of a move unless it was changed since it was seen.
func (svc *Service) releaseSeen(ctx context.Context, from *cellclient.Cell, c, seen *cellgatev1.Claim) error {
	ref := &cellv1.ClaimRef{ClaimId: seen.GetClaimId(), ConsumerUuid: c.GetConsumerUuid(), UnchangedSince: seen.GetUpdatedAt()}
	released, err := from.OperateOne(ctx, svc.Cells.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
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
	svc.Log.InfoContext(ctx, "the source of a move is another consumer's", "cell", from.Name(), "claim", c.GetMovesClaimId())
}

// sourceLeft gives the error of a confirmed claim whose source could not be released for err;
// nil if err is nil.
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
