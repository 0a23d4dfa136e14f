package cellclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// ChangeError gives the error of a call that changes a row of a cell: OUTCOME_UNKNOWN if the
// change may have happened.
func ChangeError(ctx context.Context, c *Cell, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrNotSent), IsShed(err), !IsInconclusive(err):
		return err
	}
	return fault.Wrap(fault.OutcomeUnknown, err, "cell %s may or may not have done it: %s", c.Name(), ReasonOf(err)).
		With("cell", c.Name()).With("cells", c.Name())
}

// Operate sends operations to the cell, in order, in as many batches as needed, within one budget. Each batch goes to
// the owner of the host that its first operation names. Operate gives the outcomes of the answered batches. If some
// have none, err says why: the operations from len(outcomes) to sent have an unknown outcome, and those from sent on
// were never sent, or were refused before anything was done (IsShed).
func (c *Cell) Operate(ctx context.Context, budget time.Duration, ops []*cellv1.ClaimOp) (outcomes []*cellv1.ClaimOutcome, sent int, err error) {
	end := time.Now().Add(budget)
	for len(outcomes) < len(ops) {
		batch := firstBatch(ops[len(outcomes):])
		sent = len(outcomes) + len(batch)
		got, err := c.commit(ctx, hostOf(batch[0]), budget, batch)
		if errors.Is(err, ErrNotSent) || IsShed(err) {
			return outcomes, len(outcomes), err
		}
		if err != nil {
			return outcomes, sent, err
		}
		outcomes = append(outcomes, got...)
		budget = time.Until(end) // which may be too little for the next batch
	}
	return outcomes, sent, nil
}

// hostOf gives the uuid of the host that an operation names; "" when it names none.
func hostOf(op *cellv1.ClaimOp) string {
	return cmp.Or(op.GetClaim().GetHostUuid(), op.GetSwap().GetHostUuid())
}

func firstBatch(ops []*cellv1.ClaimOp) []*cellv1.ClaimOp {
	size := 0
	for n, op := range ops {
		size += proto.Size(op)
		if n == maxOps || (n > 0 && size > maxOpBytes) {
			return ops[:n]
		}
	}
	return ops
}

// OperateOne does one operation. A refusal is an error of the kind it names.
func (c *Cell) OperateOne(ctx context.Context, budget time.Duration, op *cellv1.ClaimOp) (*cellv1.ClaimOutcome, error) {
	outcomes, _, err := c.Operate(ctx, budget, []*cellv1.ClaimOp{op})
	if err != nil {
		return nil, err
	}
	return outcomeOf(c, outcomes[0], claimIDOf(op))
}

// ChangeClaim does one operation whose caller must know whether it was done. The error is
// OUTCOME_UNKNOWN if it was sent and the answer is missing. Repeating the operation has the
// same result.
func (c *Cell) ChangeClaim(ctx context.Context, budget time.Duration, op *cellv1.ClaimOp) (*cellv1.ClaimOutcome, error) {
	outcomes, sent, err := c.Operate(ctx, budget, []*cellv1.ClaimOp{op})
	switch {
	case err == nil:
		return outcomeOf(c, outcomes[0], claimIDOf(op))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case sent == 0, fault.KindOf(err) == fault.InvalidRequest:
		return nil, err
	}
	return nil, fault.Wrap(fault.OutcomeUnknown, err, "cell %s may or may not have done it: %s", c.Name(), ReasonOf(err)).
		With("cell", c.Name()).With("cells", c.Name()).With("claim_id", claimIDOf(op))
}

// outcomeOf gives an operation's outcome. A refusal is an error of the kind it names,
// given with the outcome.
func outcomeOf(c *Cell, o *cellv1.ClaimOutcome, claimID string) (*cellv1.ClaimOutcome, error) {
	if r := o.GetRefusal(); r != nil {
		e := RefusalError(r.GetReason(), r.GetMessage())
		e.Message = fmt.Sprintf("cell %s: %s", c.Name(), e.Message)
		return o, e.With("cell", c.Name()).With("claim_id", claimID)
	}
	return o, nil
}

func claimIDOf(op *cellv1.ClaimOp) string {
	return cmp.Or(op.GetConfirm().GetClaimId(), op.GetRelease().GetClaimId(), op.GetSwap().GetClaimId(), op.GetTransfer().GetClaimId(), op.GetTakeOver().GetClaimId())
}

// IsShed reports whether a call was refused as OVERLOADED before anything was done: by the cell, or by the gateway
// because its queue for the cell is full. gRPC's RESOURCE_EXHAUSTED alone is no such refusal, since an answer that is
// too large has it too.
func IsShed(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Kind == fault.Overloaded && (e.Cause == nil || errors.Is(e.Cause, ErrNotSent))
}

// Overloaded gives OVERLOADED with the longest RetryAfter of the errs for which IsShed holds;
// nil if there is none.
func Overloaded(errs []error, format string, args ...any) *fault.Error {
	var out *fault.Error
	for _, err := range errs {
		var e *fault.Error
		if !IsShed(err) || !errors.As(err, &e) {
			continue
		}
		if out == nil {
			out = fault.New(fault.Overloaded, format, args...)
			out.RetryAfter = defaultRetryAfter
		}
		out.RetryAfter = max(out.RetryAfter, e.RetryAfter)
	}
	return out
}

// defaultRetryAfter is the shortest time that the caller of an overloaded cell waits.
const defaultRetryAfter = 100 * time.Millisecond

// IsInconclusive reports whether an error, or an operation's outcome, means that the cell
// could not do it or does not know; false if the cell refused it.
func IsInconclusive(err error) bool {
	switch fault.KindOf(err) {
	case fault.CellUnavailable, fault.OutcomeUnknown, fault.Overloaded, fault.Internal:
		return true
	}
	return false
}
