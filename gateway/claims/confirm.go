package claims

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxRetakes bounds how often Confirm reinstates a claim that expires meanwhile. Each new
// lease lasts longer than all calls of one round.
const maxRetakes = 2

// Confirm confirms a claim if its consumer has no other. It releases the source of a move: a
// source in the same cell is released by the cell, any other by releaseSource.
//
// Other confirms do not see an expired claim, so two of them could be confirmed at once.
// Confirm first reinstates it as a PENDING claim, which all confirms see. Then it searches
// the cells again and confirms the claim under the lease that was known before that search.
// So a claim is only confirmed after a search that began while it was live, whoever
// reinstated it, and however often a confirm is sent.
func (svc *Service) Confirm(ctx context.Context, req *cellgatev1.ConfirmClaimRequest) (*cellgatev1.Claim, error) {
	cells, err := svc.Cells.Selected(req.GetCell())
	if err != nil {
		return nil, err
	}
	lease := &timestamppb.Timestamp{} // no claim has this lease
	for range 1 + maxRetakes {
		seen, err := svc.soleClaim(ctx, req.GetConsumerUuid(), req.GetClaimId())
		if err != nil {
			return nil, err
		}
		if seen.found != nil && req.GetCell() == "" {
			cells = []*cellclient.Cell{seen.found}
		}
		in, got, err := svc.confirmIn(ctx, cells, req, lease)
		if err != nil {
			return nil, err
		}
		if got.GetClaim().GetState() == cellgatev1.ClaimState_CONFIRMED {
			svc.confirmed.put(confirmedKey(got.GetClaim().GetRequestId(), got.GetClaimOrigin().GetFingerprint()), in)
			for _, c := range seen.silent {
				if c != in {
					svc.unseen.add(c, got.GetClaim())
				}
			}
			return got.GetClaim(), svc.releaseSource(ctx, in, got, seen.source)
		}
		cells, lease = []*cellclient.Cell{in}, got.GetClaim().GetExpiresAt()
	}
	return nil, fault.New(fault.ClaimExpired, "claim %s expires again before it is confirmed", req.GetClaimId()).With("claim_id", req.GetClaimId())
}

// confirmIn asks cells to confirm a claim, and gives the cell that has the claim and the
// claim's new state. That is CONFIRMED; or PENDING if the claim had expired, now or before,
// and its lease is not the given one.
//
// A cell that does not know the claim changes nothing, so all cells are asked at once. A cell
// that refuses gives the error. A tombstone is what a release leaves in a cell that does not
// have the claim. It does not decide while another cell is silent, since the claim may be
// there.
func (svc *Service) confirmIn(ctx context.Context, cells []*cellclient.Cell, req *cellgatev1.ConfirmClaimRequest, lease *timestamppb.Timestamp) (*cellclient.Cell, *cellv1.ClaimOutcome, error) {
	ref := &cellv1.ClaimRef{ClaimId: req.GetClaimId(), ConsumerUuid: cellclient.Canonical(req.GetConsumerUuid()), Reinstate: true, Lease: lease}
	replies := cellclient.AskAll(ctx, cells, func(ctx context.Context, c *cellclient.Cell) (*cellv1.ClaimOutcome, error) {
		return c.OperateOne(ctx, svc.Cells.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Confirm{Confirm: ref}})
	})
	var refusals []error
	buried, unknown := error(nil), false
	for i, r := range replies {
		switch kind := fault.KindOf(r.Err); {
		case r.Err == nil:
			return r.Cell, r.Got, nil
		case kind == fault.ClaimExpired && r.Got.GetClaim() != nil && r.Got.GetClaim().GetHostUuid() == "":
			buried, replies[i].Err = r.Err, nil
		case kind == fault.NotFound:
			replies[i].Err = nil
		case kind == fault.OutcomeUnknown, !cellclient.IsInconclusive(r.Err):
			refusals = append(refusals, r.Err)
		default:
			unknown = true
		}
	}
	switch {
	case len(refusals) > 0:
		return nil, nil, refusals[0]
	case buried != nil && !unknown:
		return nil, nil, fault.Wrap(fault.ClaimExpired, buried, "claim %s was released", req.GetClaimId()).With("claim_id", req.GetClaimId())
	}
	return nil, nil, cellclient.NotFound(replies, fmt.Sprintf("claim %s of consumer %s", req.GetClaimId(), req.GetConsumerUuid()))
}
