package selection

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// An attempt is one run of a request. It may release the claims that it made even long after
// its caller has gone. So the next run of the same request takes a claim over
// (ClaimOp.take_over) before it answers with the claim. From then on, the release by the
// earlier run is refused. See docs/adr/0009.

// ownClaim is a claim that the request made before, with the index of its instance and its stored answer.
type ownClaim struct {
	existingClaim
	index  int
	answer *cellgatev1.Destinations
}

// takeOverAll takes claims over, in all cells at once, and gives those that are still live
// their places. An instance whose claim has ended is planned anew. So is one whose cell could
// not answer; that cell is lost for the request. An overloaded cell ends the request, since
// the claim stays there. A confirmed claim needs no call: no attempt releases it.
func (s *selection) takeOverAll(ctx context.Context, claims []ownClaim) error {
	byCell := map[int][]ownClaim{}
	for _, k := range claims {
		if k.claim.GetState() == cellgatev1.ClaimState_CONFIRMED {
			s.settle(k, k.claim)
			continue
		}
		byCell[k.cell] = append(byCell[k.cell], k)
	}
	if len(byCell) == 0 {
		return nil
	}
	if s.attemptID == "" {
		s.attemptID = s.svc.newID()
	}
	at, step := s.svc.Telemetry.Stage(ctx, telemetry.StageClaim)
	budget := cellclient.StepBudget(at, s.svc.Cells.ClaimBudget)
	type reply struct {
		outcomes []*cellv1.ClaimOutcome
		err      error
	}
	replies := make([]reply, len(s.svc.Cells.All))
	var all sync.WaitGroup
	for cell, list := range byCell {
		all.Go(func() {
			ops := make([]*cellv1.ClaimOp, len(list))
			for i, k := range list {
				ops[i] = &cellv1.ClaimOp{Op: &cellv1.ClaimOp_TakeOver{TakeOver: &cellv1.ClaimRef{
					ClaimId: k.claim.GetClaimId(), ConsumerUuid: k.claim.GetConsumerUuid(), Attempt: s.attemptID,
				}}}
			}
			r := &replies[cell]
			r.outcomes, _, r.err = s.batch(at, cell, budget, ops)
		})
	}
	all.Wait()
	step.End(nil)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for cell, list := range byCell {
		for i, k := range list {
			if i >= len(replies[cell].outcomes) {
				err := replies[cell].err
				if e := cellclient.Overloaded([]error{err}, "cell %s holds a claim of this request: %s", s.svc.Cells.All[cell].Name(), cellclient.ReasonOf(err)); e != nil {
					return e.With("cells", s.svc.Cells.All[cell].Name())
				}
				if err := s.incompleteSearch(cell, err); err != nil {
					return err
				}
				s.markUnavailable(ctx, cell, replies[cell].err)
				continue
			}
			if err := s.tookOver(ctx, k, replies[cell].outcomes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// tookOver handles the outcome of a take_over.
func (s *selection) tookOver(ctx context.Context, k ownClaim, o *cellv1.ClaimOutcome) error {
	r := o.GetRefusal()
	if r == nil {
		s.settle(k, o.GetClaim())
		return nil
	}
	err := cellclient.RefusalError(r.GetReason(), r.GetMessage())
	switch kind := fault.KindOf(err); {
	case cellclient.IsInconclusive(err):
		s.markUnavailable(ctx, k.cell, err)
		return nil
	case kind == fault.ClaimExpired, kind == fault.NotFound:
		s.endedClaims[k.claim.GetClaimId()] = true
		return nil
	}
	return fault.Wrap(fault.Internal, err, "cell %s did not keep claim %s", s.svc.Cells.All[k.cell].Name(), k.claim.GetClaimId())
}

// settle gives an instance the place of a claim from an earlier call.
func (s *selection) settle(k ownClaim, claim *cellgatev1.Claim) {
	s.places[k.index] = &place{cell: k.cell, answer: k.answer, claim: claim, fromEarlierCall: true}
	if s.decision == "" {
		s.decision = claim.GetDecisionId()
	}
}

// incompleteSearch gives the error of a request that may not go on without a healthy cell
// that its near deadline cut off: a repeat would be claimed again elsewhere, a move would
// miss its source. It is nil for any other request. It is also nil for an unhealthy cell,
// where waiting longer would not help.
func (s *selection) incompleteSearch(cell int, err error) error {
	if !errors.Is(err, cellclient.ErrDeadlineTooShort) || !s.asksForClaims() || s.req.GetRequestId() == "" && !s.moves() {
		return nil
	}
	name := s.svc.Cells.All[cell].Name()
	return fault.Wrap(fault.CellUnavailable, err, "%s, all that the request's deadline left it, and may hold a claim of this request: repeat it with more time", cellclient.ReasonOf(err)).With("cells", name)
}

// hasEnded reports whether a cell answered that a claim has ended. A proposal from a slightly
// older table may still list it.
func (s *selection) hasEnded(h existingClaim) bool { return s.endedClaims[h.claim.GetClaimId()] }

// compareHeld orders two claims of one consumer as CompareClaims does, with one exception: of
// two pending claims, that of the later attempt is first. The later attempt was answered
// last, and a claim of an earlier one may have arrived late.
func compareHeld(a, b existingClaim) int {
	pending := func(h existingClaim) bool { return h.claim.GetState() == cellgatev1.ClaimState_PENDING }
	if pending(a) && pending(b) && !claims.Pair(a.claim, b.claim) {
		if n := cmp.Compare(b.origin.GetAttempt(), a.origin.GetAttempt()); n != 0 {
			return n
		}
	}
	return claims.CompareClaims(a.claim, b.claim)
}
