package cellclient

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// maxOps and maxOpBytes bound one ClaimBatch. maxOps is the most operations that a cell
	// validates in its fast path (plainClaims of package cell).
	maxOps     = 128
	maxOpBytes = rpc.MaxMessageBytes / 2
	// maxCommits is how many ClaimBatch calls to one replica run at once if the earlier ones
	// are slow.
	maxCommits = 16
	// maxQueuedOps and maxQueuedBytes bound the queue for such calls: no more than a cell
	// lets wait for its shard (cell.max_queue).
	maxQueuedOps   = 8192
	maxQueuedBytes = 64 << 20
)

// committed is the answer to the operations of one request.
type committed struct {
	outcomes []*cellv1.ClaimOutcome
	err      error
}

func sizeOfOps(ops []*cellv1.ClaimOp) (items, bytes int) {
	for _, op := range ops {
		bytes += proto.Size(op)
	}
	return len(ops), bytes
}

// commit does operations, within the bounds of one call, at the owner of the host that key names. The operations of
// several requests share a call if they queue; those of one request keep their order. Errors are as those of Call;
// operations that still waited in the queue when their time was over were not sent.
func (c *Cell) commit(ctx context.Context, key string, budget time.Duration, ops []*cellv1.ClaimOp) ([]*cellv1.ClaimOutcome, error) {
	req := &cellv1.ClaimBatchRequest{Ops: ops}
	a := callOptions{budget: budget, fullBudget: c.ClaimBudget, mayRepeat: repeatable(req), kind: commits, order: c.InOrder(key)}
	return try(ctx, c, a, func(ctx context.Context, r *Replica, _ *pass) ([]*cellv1.ClaimOutcome, error) {
		// In one batch, the replica's spans could not be children of each traced request's;
		// and other requests would wait for the verdicts of these hosts.
		if telemetry.Sampled(ctx) || r.awaits.Load() && placesAny(ops) {
			return r.sendOps(ctx, req)
		}
		return r.commit(ctx, ops)
	})
}

// placesAny reports whether an operation puts a claim on a host.
func placesAny(ops []*cellv1.ClaimOp) bool {
	return slices.ContainsFunc(ops, func(op *cellv1.ClaimOp) bool { return hostOf(op) != "" })
}

// commit queues operations and waits until they are answered, or ctx ends.
func (r *Replica) commit(ctx context.Context, ops []*cellv1.ClaimOp) ([]*cellv1.ClaimOutcome, error) {
	w := &waiting[[]*cellv1.ClaimOp, committed]{ctx: ctx, question: ops, done: make(chan committed, 1)}
	if !r.operations.put(w) {
		return nil, r.queueFull()
	}
	got, answered := w.await()
	switch {
	case answered:
		return got.outcomes, got.err
	case !r.operations.withdraw(w):
		return nil, ctx.Err()
	case r.operations.busy(w):
		return nil, fmt.Errorf("%w: %w: %w", ErrNotSent, errBusy, ctx.Err())
	}
	return nil, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
}

// queueFull is the error of operations that find the queue full, with the time to wait before a
// retry.
func (r *Replica) queueFull() error {
	r.cell.Telemetry.QueueRefused()
	e := fault.Wrap(fault.Overloaded, ErrNotSent, "too many operations wait for cell %s", r.cell.Name())
	e.RetryAfter = max(defaultRetryAfter, r.operations.backlog())
	return e
}

// commitBatch sends one batch. The call may take until the latest deadline of the callers.
func (r *Replica) commitBatch(batch []*waiting[[]*cellv1.ClaimOp, committed]) bool {
	if len(batch) == 1 {
		w := batch[0]
		outcomes, err := r.sendOps(w.ctx, &cellv1.ClaimBatchRequest{Ops: w.question})
		w.done <- committed{outcomes, err}
		return err == nil
	}
	ctx, cancel := context.WithDeadline(r.cells.ctx, until(batch))
	req := &cellv1.ClaimBatchRequest{}
	for _, w := range batch {
		req.Ops = append(req.Ops, w.question...)
	}
	outcomes, err := r.sendOps(ctx, req)
	cancel()
	if mayBeOneOfThem(err) && r.refuses() == nil {
		return r.commitAlone(batch, err)
	}
	for _, w := range batch {
		if err != nil {
			w.done <- committed{err: err}
			continue
		}
		own := outcomes[:len(w.question):len(w.question)]
		outcomes = outcomes[len(w.question):]
		if err := noneDone(own); err != nil {
			w.done <- committed{err: err}
			continue
		}
		w.done <- committed{outcomes: own}
	}
	return err == nil
}

// mayBeOneOfThem reports whether a single operation may have failed the call: an invalid one,
// or one that meets a defect of the replica.
func mayBeOneOfThem(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.InvalidRequest || kind == fault.Internal
}

// commitAlone repeats a call that failed for one of its operations, with each caller's operations in a
// call of their own. Repeating an operation that was done is harmless, except for a swap or a
// transfer, which would undo later changes of the claim. These get the error if they may have
// been done.
func (r *Replica) commitAlone(batch []*waiting[[]*cellv1.ClaimOp, committed], err error) bool {
	answered := false
	for i, w := range batch {
		if r.refuses() != nil {
			w.done <- committed{err: err}
			continue
		}
		onlyOnce := slices.ContainsFunc(w.question, func(op *cellv1.ClaimOp) bool { return op.GetSwap() != nil || op.GetTransfer() != nil })
		if onlyOnce && fault.KindOf(err) == fault.Internal {
			w.done <- committed{err: err}
			continue
		}
		answered = r.commitBatch(batch[i:i+1]) || answered
	}
	return answered
}

// noneDone gives the error of a caller's operations if the replica did none of them, and
// could not: for example a stopping replica still had them in its queue. The replica gives
// the same error to a call of these operations alone (cell.nothingDone), so they may go to
// another replica. Nil if one was done, refused, or may have been done.
func noneDone(outcomes []*cellv1.ClaimOutcome) error {
	for _, o := range outcomes {
		r := o.GetRefusal()
		if r == nil {
			return nil
		}
		if err := RefusalError(r.GetReason(), r.GetMessage()); !IsInconclusive(err) || err.Kind == fault.OutcomeUnknown {
			return nil
		}
	}
	if len(outcomes) == 0 {
		return nil
	}
	r := outcomes[0].GetRefusal()
	return RefusalError(r.GetReason(), r.GetMessage())
}

// sendOps sends one ClaimBatch and checks that every operation has an outcome.
func (r *Replica) sendOps(ctx context.Context, req *cellv1.ClaimBatchRequest) ([]*cellv1.ClaimOutcome, error) {
	began := time.Now()
	resp, err := r.client.ClaimBatch(ctx, req)
	r.cell.Telemetry.Called(ctx, req, time.Since(began), err)
	if err == nil && len(resp.GetOutcomes()) != len(req.GetOps()) {
		err = fault.New(fault.Internal, "cell %s answered %d of %d operations", r.cell.Name(), len(resp.GetOutcomes()), len(req.GetOps()))
	}
	return resp.GetOutcomes(), err
}
