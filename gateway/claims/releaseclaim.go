package claims

import (
	"context"
	"fmt"
	"slices"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// ReleaseClaim releases a claim in the cell that has it, even if the request names another
// cell. If no answering cell has it, all cells are asked, so that the claim is refused
// wherever it may still arrive. It fails if a cell that may have or get the claim did not
// answer. If the claim is another consumer's, it fails and changes nothing. It gives the
// claim as it was found; nil if no cell knew it.
func (svc *Service) ReleaseClaim(ctx context.Context, req *cellgatev1.ReleaseClaimRequest) (*cellgatev1.Claim, error) {
	named, err := svc.Cells.Selected(req.GetCell())
	if err != nil {
		return nil, err
	}
	ref := &cellv1.ClaimRef{ClaimId: req.GetClaimId(), ConsumerUuid: cellclient.Canonical(req.GetConsumerUuid())}
	in, found := svc.find(ctx, named, ref.GetClaimId())
	if in == nil && len(named) < len(svc.Cells.All) {
		others := slices.DeleteFunc(slices.Clone(svc.Cells.All), func(c *cellclient.Cell) bool { return c == named[0] })
		in, found = svc.find(ctx, others, ref.GetClaimId())
	}
	cells := svc.Cells.All
	if in != nil {
		if found.GetConsumerUuid() != ref.GetConsumerUuid() {
			return nil, fault.Invalid("consumer_uuid", "claim %s is of another consumer", ref.GetClaimId()).
				With("cell", in.Name()).With("claim_id", ref.GetClaimId())
		}
		cells = []*cellclient.Cell{in}
	}
	replies := cellclient.AskAll(ctx, cells, func(ctx context.Context, c *cellclient.Cell) (struct{}, error) {
		_, err := c.OperateOne(ctx, svc.Cells.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
		return struct{}{}, err
	})
	missing := false
	for _, r := range replies {
		switch {
		case r.Err == nil:
		case cellclient.IsInconclusive(r.Err):
			missing = true
		default:
			return nil, r.Err
		}
	}
	if missing {
		return nil, cellclient.NotFound(replies, fmt.Sprintf("claim %s of consumer %s", req.GetClaimId(), req.GetConsumerUuid()))
	}
	svc.unpinReleased(ctx, found)
	return found, nil
}

// find gives the cell that made a claim, and the claim, live or ended; nil if no answering
// cell made it. A tombstone, which a release leaves for a claim that never arrived, does not
// count.
func (svc *Service) find(ctx context.Context, cells []*cellclient.Cell, claimID string) (*cellclient.Cell, *cellgatev1.Claim) {
	made := func(c *cellgatev1.Claim) bool { return c.GetHostUuid() != "" }
	replies := cellclient.Search(ctx, svc.Cells, cells, 0, made, func(ctx context.Context, c *cellclient.Cell) (*cellgatev1.Claim, error) {
		return c.FindClaim(ctx, svc.Cells.ClaimBudget, claimID)
	})
	for _, r := range replies {
		if made(r.Got) {
			return r.Cell, r.Got
		}
	}
	return nil, nil
}

// Release releases claims in one cell, and logs a failure at most every ten seconds. It gives
// the ids of the released claims. A claim that is confirmed, or belongs to another attempt,
// is no error if its ref names an attempt: the releasing attempt has nothing left there.
func (svc *Service) Release(ctx context.Context, c *cellclient.Cell, refs []*cellv1.ClaimRef) (gone []string, err error) {
	ctx, span := svc.Telemetry.Span(ctx, telemetry.SpanRelease)
	span.Text(telemetry.AttrCell, c.Name())
	span.Int(telemetry.AttrOps, len(refs))
	defer func() { span.End(err) }()
	var ops []*cellv1.ClaimOp
	for _, ref := range refs {
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
	}
	var outcomes []*cellv1.ClaimOutcome
	outcomes, _, err = c.Operate(ctx, svc.Cells.ClaimBudget, ops)
	for i, o := range outcomes {
		r := o.GetRefusal()
		switch {
		case r == nil:
			gone = append(gone, refs[i].GetClaimId())
		case refs[i].GetAttempt() != "" && fault.Kind(r.GetReason()) == fault.AlreadyExists:
		case err == nil:
			err = cellclient.RefusalError(r.GetReason(), r.GetMessage())
		}
	}
	if err != nil {
		svc.unreleased.Warn(ctx, c.Name(), len(refs), "claims were not released; they end with their leases", "cell", c.Name(), "error", err)
	}
	return gone, err
}
