package replica

import (
	"context"
	"errors"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	"cellgate/shard"
)

// pipeline commits operations through the replica's lane. Operations that arrive while a transaction is
// in flight form the next one, which may wait a little for more (shard.BatchWindow).
type pipeline struct {
	*State
	// listener is called with every transaction's changes, after its callers are answered.
	listener changeListener
	// Only run uses lane, window, failures and last. last is when the newest transaction ended and how
	// long it took.
	lane     shard.Lane
	window   shard.BatchWindow
	failures *throttle.Log
	last     struct {
		ended time.Time
		took  time.Duration
	}
}

// changeListener is called with changes once the table shows them. Its methods must not block.
type changeListener interface {
	// Committed gets the changes of this replica's lane, Learned those that were read in the journal.
	Committed(changes []shard.Change)
	Learned(changes []shard.Change)
}

// run commits until ctx ends. It finishes the transaction in flight. Operations that still wait are
// answered CELL_UNAVAILABLE, and none of them was done.
func (p *pipeline) run(ctx context.Context, lane shard.Lane) error {
	p.lane = lane
	defer p.refuseRest()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Queue.wake:
		}
		p.gatherMore(ctx)
		p.pause(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := p.commit(ctx, p.Queue.next(p.cfg.MaxBatch)); err != nil {
			return err
		}
	}
}

// gatherMore waits briefly for more operations of callers that were just answered, if that pays.
func (p *pipeline) gatherMore(ctx context.Context) {
	before := p.Queue.length()
	want, limit := p.window.Wait(before, p.cfg.MaxBatch)
	if limit == 0 {
		return
	}
	began := time.Now()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for there := before; ; there = p.Queue.length() {
		if there >= want {
			p.window.Waited(before, there, time.Since(began))
			return
		}
		select {
		case <-p.Queue.wake:
		case <-timer.C:
			p.window.Waited(before, p.Queue.length(), time.Since(began))
			return
		case <-ctx.Done():
			return
		}
	}
}

// maxPause bounds a pause.
const maxPause = 50 * time.Millisecond

// pause waits between two transactions of background operations while the queue is busy. It waits as
// long as the last one took, so that half of the time is left to proposals and to callers' next
// operations. An urgent operation ends the pause.
func (p *pipeline) pause(ctx context.Context) {
	left := time.Until(p.last.ended.Add(min(p.last.took, maxPause)))
	if left <= 0 || !p.Queue.mayPause() {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for p.Queue.mayPause() {
		select {
		case <-p.Queue.wake:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// commit applies one batch. It returns an error if the replica must end: after a defect, or if the
// store cannot go on.
func (p *pipeline) commit(ctx context.Context, items []item) error {
	batch := items[:0]
	for _, i := range items {
		p.endWait(i.job)
		if i.abandoned() {
			p.answerUnchanged([]item{i}, i.job.ctx.Err())
			continue
		}
		batch = append(batch, i)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shard.ApplyLimit)
	defer cancel()
	if len(batch) == 0 {
		return nil
	}
	ops := make([]shard.Op, len(batch))
	for n, i := range batch {
		ops[n] = i.op()
	}
	spans := p.spans(batch, telemetry.SpanTransaction)
	for _, s := range spans {
		s.Int(telemetry.AttrBatch, len(ops))
	}
	began := time.Now()
	ended := p.Stored.begin(&p.Stored.writes)
	applied, err := p.lane.Apply(ctx, ops)
	ended(err)
	took := time.Since(began)
	p.last.ended, p.last.took = began.Add(took), took
	p.window.Applied(len(ops), p.Queue.length(), took)
	if err != nil {
		err = StoreFault(err)
	}
	endSpans(spans, err)
	p.countOutcomes(ops, applied, took, err)
	switch {
	case err == nil && len(applied.Outcomes) != len(ops):
		err = fault.New(fault.Internal, "the store answered %d of %d operations", len(applied.Outcomes), len(ops))
		p.answerUnchanged(batch, err)
		return err
	case err != nil:
		p.failures.Warn(ctx, "", 1, "a transaction failed", "ops", len(ops), "err", err)
		p.answerUnchanged(batch, err)
		if isFatal(err) {
			return err
		}
		if fault.KindOf(err) == fault.OutcomeUnknown {
			p.Journal.hurryUp()
		}
		return nil
	}
	p.Journal.noteOwn(applied.Entry, func(changes []shard.Change) {
		p.publishThenAnswer(batch, func(n int) Answer { return Answer{Outcome: applied.Outcomes[n]} }, changes, applied.Entry.Changes)
	})
	return nil
}

// answerUnchanged answers a batch with err and without changes to the table.
func (p *pipeline) answerUnchanged(batch []item, err error) {
	p.publishThenAnswer(batch, func(int) Answer { return Answer{Err: err} }, nil, nil)
}

// publishThenAnswer answers a batch once the table shows its changes, then calls the listener with
// wrote. All answers are given on the writer's goroutine, so that two goroutines never answer one job.
func (p *pipeline) publishThenAnswer(batch []item, of func(n int) Answer, changes, wrote []shard.Change) {
	spans := p.spans(batch, telemetry.SpanPublish)
	p.Writer.publish(tableUpdate{changes: changes, afterPublish: func() {
		endSpans(spans, nil)
		for n, i := range batch {
			i.answer(of(n))
		}
		if len(wrote) > 0 {
			p.listener.Committed(wrote)
		}
	}})
}

func (p *pipeline) refuseRest() {
	rest := p.Queue.close()
	if len(rest) > 0 {
		err := ErrStopping()
		for _, i := range rest {
			p.endWait(i.job)
		}
		p.answerUnchanged(rest, err)
	}
}

// StoreFault gives a store's error a kind. If a context ended inside the store, nothing was written.
func StoreFault(err error) error {
	var f *fault.Error
	switch {
	case errors.As(err, &f):
		return err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fault.Wrap(fault.CellUnavailable, err, "the cell's shard did not answer in time")
	}
	return fault.Wrap(fault.Internal, err, "the cell's shard failed")
}
