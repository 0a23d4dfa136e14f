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

// serve applies queued operations until the queue is closed. It works like a cell: operations that
// arrive during a transaction form the next one, which waits briefly for callers that were just
// answered (shard.BatchWindow). A transaction has at most batch operations. serve calls applied with
// each transaction before it answers the callers.
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

// fill receives from the queue until there are n calls, or until over ends the wait. If over is nil, it
// stops when the queue is empty. It is the only receiver.
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
