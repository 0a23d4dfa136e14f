package storebench

import (
	"context"
	"time"

	"cellgate/shard"
)

// asked is an operation whose caller waits for its answer.
type asked struct {
	op     shard.Op
	answer chan answer
}

// answer is an operation's outcome, or why there is none.
type answer struct {
	shard.Outcome
	err error
}

// serve applies what is queued until the queue is closed: as a cell does, what comes while a
// transaction is under way goes as the next one, and that waits a little for those who were
// just answered (shard.BatchWindow). A transaction has at most batch operations. applied is
// called with each before its callers get it.
func serve(ctx context.Context, l shard.Lane, queue <-chan asked, batch int, applied func(shard.Applied)) {
	var window shard.BatchWindow
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for first := range queue {
		calls := fill([]asked{first}, queue, batch, nil)
		if want, limit := window.Wait(len(calls), batch); limit > 0 {
			before, began := len(calls), time.Now()
			timer.Reset(limit)
			calls = fill(calls, queue, want, timer.C)
			window.Waited(before, len(calls), time.Since(began))
		}
		ops := make([]shard.Op, len(calls))
		for i, c := range calls {
			ops[i] = c.op
		}
		began := time.Now()
		done, err := l.Apply(ctx, ops)
		window.Applied(len(ops), len(queue), time.Since(began))
		if err == nil {
			applied(done)
		}
		for i, c := range calls {
			if err != nil {
				c.answer <- answer{err: err}
				continue
			}
			c.answer <- answer{Outcome: done.Outcomes[i]}
		}
	}
}

// fill receives from the queue until there are n, or until over ends the wait; with no over, until
// nothing is there. It is the only receiver.
func fill(calls []asked, queue <-chan asked, n int, over <-chan time.Time) []asked {
	for len(calls) < n && (over != nil || len(queue) > 0) {
		select {
		case c, ok := <-queue:
			if !ok {
				return calls
			}
			calls = append(calls, c)
		case <-over:
			return calls
		}
	}
	return calls
}
