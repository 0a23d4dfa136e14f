package claims

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// yieldFor is how long a confirm waits for the confirm of a claim that precedes its own:
// enough for the few calls that one makes.
const yieldFor = 100 * time.Millisecond

// soleClaim makes sure that a consumer has no claim besides the one that is about to be
// confirmed, in the cells that answer in time. Disabled cells are asked too, since their
// claims are still valid. A confirmed claim elsewhere is an error, a pending one is released.
// The claims of a move may exist beside each other. It returns what it saw.
//
// A claim that is already confirmed stays confirmed. Another confirmed claim is then only
// logged, since only the hosts know which one is right.
//
// Two confirms at once, of two claims of one consumer, never both succeed. Each would release
// the other's claim, so the confirm whose claim comes second (CompareClaims) waits for
// yieldFor, and then asks whether the other claim was confirmed. If the other confirm is
// slower than that, both may be refused.
func (svc *Service) soleClaim(ctx context.Context, consumer, claimID string) (confirmView, error) {
	v, err := svc.viewFor(ctx, consumer, claimID)
	if err == nil && v.yields() {
		if err := cellclient.Pause(ctx, yieldFor); err != nil {
			return v, err
		}
		v, err = svc.viewFor(ctx, consumer, claimID)
	}
	if err != nil {
		return v, err
	}
	return v, svc.releaseOthers(ctx, consumer, v)
}

// confirmView is what a confirm sees of its consumer.
type confirmView struct {
	// found is the cell that has the live claim to confirm, and itself that claim; nil if no
	// answering cell has it.
	found  *cellclient.Cell
	itself *cellgatev1.Claim
	// source is the live claim of the consumer that itself moves; nil if none was seen.
	source *cellgatev1.Claim
	// others are pending claims that have to be released first.
	others []cellclient.Reply[*cellgatev1.Claim]
	// silent are the cells that did not answer.
	silent []*cellclient.Cell
}

// settled reports whether the claim to confirm is already confirmed.
func (v confirmView) settled() bool { return v.itself.GetState() == cellgatev1.ClaimState_CONFIRMED }

// yields reports whether another pending claim precedes this one.
func (v confirmView) yields() bool {
	return v.found != nil && slices.ContainsFunc(v.others, func(o cellclient.Reply[*cellgatev1.Claim]) bool { return CompareClaims(o.Got, v.itself) < 0 })
}

// viewFor asks all cells for the claims of a consumer. An error says why the claim cannot be
// confirmed.
func (svc *Service) viewFor(ctx context.Context, consumer, claimID string) (v confirmView, err error) {
	bounded, cancel := context.WithTimeout(ctx, svc.Cells.ProposeBudget)
	defer cancel()
	replies := svc.Find(bounded, svc.Cells.All, consumer)
	for _, r := range replies {
		if r.Err != nil {
			v.silent = append(v.silent, r.Cell)
		}
		for _, c := range r.Got {
			if c.GetClaimId() == claimID {
				v.found, v.itself = r.Cell, c
			}
		}
	}
	unanswered := len(v.silent) > 0
	for _, r := range replies {
		for _, c := range r.Got {
			switch {
			case c.GetClaimId() == claimID:
			case v.itself != nil && beside(v.itself, c):
				if movesFrom(v.itself, c) {
					v.source = c
				}
			case c.GetState() == cellgatev1.ClaimState_CONFIRMED && v.itself == nil && unanswered:
				// The claim to confirm may be in a cell that did not answer, and be a move of
				// this one.
				return v, cellclient.NotFound(replies, fmt.Sprintf("claim %s of consumer %s", claimID, consumer))
			case c.GetState() == cellgatev1.ClaimState_CONFIRMED && v.settled():
				svc.LogDuplicate(ctx, v.itself, c)
			case c.GetState() == cellgatev1.ClaimState_CONFIRMED:
				return v, cmp.Or(svc.neverKnown(ctx, consumer, claimID, v, c), duplicate(consumer, c))
			default:
				v.others = append(v.others, cellclient.Reply[*cellgatev1.Claim]{Cell: r.Cell, Got: c})
			}
		}
	}
	if v.found == nil && len(v.others) > 0 && unanswered {
		// The claim may be live in a cell that did not answer, so the others are not released.
		return v, cellclient.NotFound(replies, fmt.Sprintf("claim %s of consumer %s", claimID, consumer))
	}
	if v.found == nil && len(v.others) > 0 {
		// The claim has ended, and the consumer has another one.
		return v, cmp.Or(svc.neverKnown(ctx, consumer, claimID, v, v.others[0].Got), error(fault.New(fault.ClaimExpired, "claim %s has ended, and instance %s has claim %s in cell %s now",
			claimID, consumer, v.others[0].Got.GetClaimId(), v.others[0].Cell.Name()).
			With("claim_id", v.others[0].Got.GetClaimId()).With("cell", v.others[0].Cell.Name())))
	}
	return v, nil
}

// neverKnown gives an error if no answering cell knows the claim to confirm, live or ended:
// then its caller names a wrong one instead of has, the instance's claim. It is nil if a cell
// knows the claim.
func (svc *Service) neverKnown(ctx context.Context, consumer, claimID string, v confirmView, has *cellgatev1.Claim) error {
	if v.itself != nil {
		return nil
	}
	if in, _ := svc.find(ctx, svc.Cells.All, claimID); in != nil {
		return nil
	}
	return fault.New(fault.NotFound, "claim %s of instance %s is not known; the instance has claim %s, %s, in cell %s",
		claimID, consumer, has.GetClaimId(), has.GetState(), has.GetCell()).With("consumer_uuid", consumer)
}

// releaseOthers releases the pending claims that prevent a confirm.
func (svc *Service) releaseOthers(ctx context.Context, consumer string, v confirmView) error {
	for _, p := range v.others {
		ref := &cellv1.ClaimRef{ClaimId: p.Got.GetClaimId(), ConsumerUuid: cellclient.Canonical(consumer), PendingOnly: true}
		switch _, err := p.Cell.OperateOne(ctx, svc.Cells.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}}); {
		case err != nil && v.settled():
			// The other claim ends with its lease. If it was confirmed just now, the next confirm sees it.
			svc.Log.WarnContext(ctx, "the other claim of a confirmed instance is not released", "instance", consumer,
				"cell", p.Cell.Name(), "claim", p.Got.GetClaimId(), "error", err)
			continue
		case fault.KindOf(err) == fault.AlreadyExists:
			return duplicate(consumer, p.Got)
		case err != nil:
			return err
		}
		svc.Log.InfoContext(ctx, "released the other claim of a confirmed instance", "cell", p.Cell.Name(), "claim", p.Got.GetClaimId())
	}
	return nil
}

func duplicate(consumer string, c *cellgatev1.Claim) error {
	return fault.New(fault.AlreadyExists,
		"instance %s has a confirmed claim already: %s in cell %s; if the instance is not there, release that one (ReleaseClaim with claim_id %s), then confirm again",
		consumer, c.GetClaimId(), c.GetCell(), c.GetClaimId()).
		With("consumer_uuid", consumer).With("claim_id", c.GetClaimId()).With("cell", c.GetCell())
}

// LogDuplicate logs and counts that a consumer has two confirmed claims.
func (svc *Service) LogDuplicate(ctx context.Context, a, b *cellgatev1.Claim) {
	svc.Telemetry.TwoConfirmed()
	svc.Log.WarnContext(ctx, "an instance has two confirmed claims; release the one where it is not", "instance", a.GetConsumerUuid(),
		"claim", a.GetClaimId(), "cell", a.GetCell(), "other_claim", b.GetClaimId(), "other_cell", b.GetCell())
}
