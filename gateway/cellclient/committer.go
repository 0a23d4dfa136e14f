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

// committer sends operations to one replica, and those of several requests in one call if
// they queue. The operations of one request keep their order. A traced request's operations
// go alone, and so do claims and swaps while the replica awaits the verdicts of hosts.
type committer struct {
	replica *Replica
	ctx     context.Context // that of Cells
	batcher[[]*cellv1.ClaimOp, committed]
}

type committed struct {
	outcomes []*cellv1.ClaimOutcome
	err      error
}

func (c *committer) init(r *Replica, cs *Cells) {
	c.replica, c.ctx = r, cs.ctx
	c.batcher = batcher[[]*cellv1.ClaimOp, committed]{
		tasks: &cs.Tasks, calls: maxCommits, items: maxOps, bytes: maxOpBytes, call: c.call,
		maxItems: maxQueuedOps, maxBytes: maxQueuedBytes,
		sizeOf: func(ops []*cellv1.ClaimOp) (int, int) {
			size := 0
			for _, op := range ops {
				size += proto.Size(op)
			}
			return len(ops), size
		},
	}
}

// commit does operations, within the bounds of one call, at the owner of the host that key names.
// Errors are as those of Call; operations that still waited in the queue when their time was over
// were not sent.
func (c *Cell) commit(ctx context.Context, key string, budget time.Duration, ops []*cellv1.ClaimOp) ([]*cellv1.ClaimOutcome, error) {
	req := &cellv1.ClaimBatchRequest{Ops: ops}
	a := callOptions{budget: budget, fullBudget: c.ClaimBudget, mayRepeat: repeatable(req), kind: commits, order: c.InOrder(key)}
	return try(ctx, c, a, func(ctx context.Context, r *Replica, _ *pass) ([]*cellv1.ClaimOutcome, error) {
		// In one batch, the replica's spans could not be children of each traced request's;
		// and other requests would wait for the verdicts of these hosts.
		if telemetry.Sampled(ctx) || r.awaits.Load() && placesAny(ops) {
			return r.committer.sendBatch(ctx, req)
		}
		return r.committer.commit(ctx, ops)
	})
}

// placesAny reports whether an operation puts a claim on a host.
func placesAny(ops []*cellv1.ClaimOp) bool {
	return slices.ContainsFunc(ops, func(op *cellv1.ClaimOp) bool { return hostOf(op) != "" })
}

// commit queues operations and waits until they are answered, or ctx ends.
func (c *committer) commit(ctx context.Context, ops []*cellv1.ClaimOp) ([]*cellv1.ClaimOutcome, error) {
	w := &waiting[[]*cellv1.ClaimOp, committed]{ctx: ctx, question: ops, done: make(chan committed, 1)}
	if !c.batcher.put(w) {
		return nil, c.full()
	}
	select {
	case got := <-w.done:
		return got.outcomes, got.err
	case <-ctx.Done():
	}
	switch {
	case !c.batcher.withdraw(w):
		return nil, ctx.Err()
	case c.batcher.busy(w):
		return nil, fmt.Errorf("%w: %w: %w", ErrNotSent, errBusy, ctx.Err())
	}
	return nil, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
}

// full is the error of operations that find the queue full, with the time to wait before a
// retry.
func (c *committer) full() error {
	c.replica.cell.Telemetry.QueueRefused()
	e := fault.Wrap(fault.Overloaded, ErrNotSent, "too many operations wait for cell %s", c.replica.cell.Name())
	e.RetryAfter = max(defaultRetryAfter, c.batcher.backlog())
	return e
}

// call sends one batch. The call may take until the latest deadline of the callers.
func (c *committer) call(batch []*waiting[[]*cellv1.ClaimOp, committed]) bool {
	if len(batch) == 1 {
		w := batch[0]
		outcomes, err := c.sendBatch(w.ctx, &cellv1.ClaimBatchRequest{Ops: w.question})
		w.done <- committed{outcomes, err}
		return err == nil
	}
	ctx, cancel := context.WithDeadline(c.ctx, until(batch))
	req := &cellv1.ClaimBatchRequest{}
	for _, w := range batch {
		req.Ops = append(req.Ops, w.question...)
	}
	outcomes, err := c.sendBatch(ctx, req)
	cancel()
	if mayBeOneOfThem(err) && c.replica.refuses() == nil {
		return c.alone(batch, err)
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

// alone repeats a call that failed for one of its operations, with each caller's operations in a
// call of their own. Repeating an operation that was done is harmless, except for a swap or a
// transfer, which would undo later changes of the claim. These get the error if they may have
// been done.
func (c *committer) alone(batch []*waiting[[]*cellv1.ClaimOp, committed], err error) bool {
	answered := false
	for i, w := range batch {
		if c.replica.refuses() != nil {
			w.done <- committed{err: err}
			continue
		}
		onlyOnce := slices.ContainsFunc(w.question, func(op *cellv1.ClaimOp) bool { return op.GetSwap() != nil || op.GetTransfer() != nil })
		if onlyOnce && fault.KindOf(err) == fault.Internal {
			w.done <- committed{err: err}
			continue
		}
		answered = c.call(batch[i:i+1]) || answered
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

// sendBatch sends one ClaimBatch and checks that every operation has an outcome.
func (c *committer) sendBatch(ctx context.Context, req *cellv1.ClaimBatchRequest) ([]*cellv1.ClaimOutcome, error) {
	began := time.Now()
	resp, err := c.replica.client.ClaimBatch(ctx, req)
	c.replica.cell.Telemetry.Called(ctx, req, time.Since(began), err)
	if err == nil && len(resp.GetOutcomes()) != len(req.GetOps()) {
		err = fault.New(fault.Internal, "cell %s answered %d of %d operations", c.replica.cell.Name(), len(resp.GetOutcomes()), len(req.GetOps()))
	}
	return resp.GetOutcomes(), err
}
