package shardtest

import (
	"context"
	"time"

	"cellgate/shard"
)

// Asked is an operation whose caller waits for its answer.
type Asked struct {
	Op     shard.Op
	Answer chan Answer
}

// Answer is an operation's outcome, or why there is none.
type Answer struct {
	Outcome shard.Outcome
	Err     error
}

// Serve applies what is queued until the queue is closed, for benchmarks: as a cell
// does, what comes while a transaction is under way goes as the next one, and that
// waits a little for those who were just answered (shard.BatchWindow). A transaction has
// at most batch operations. applied hears of each before its callers do.
func Serve(ctx context.Context, l shard.Lane, queue <-chan Asked, batch int, applied func(shard.Applied)) {
	var window shard.BatchWindow
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for first := range queue {
		asked := fill([]Asked{first}, queue, batch, nil)
		if want, limit := window.Wait(len(asked), batch); limit > 0 {
			before, began := len(asked), time.Now()
			timer.Reset(limit)
			asked = fill(asked, queue, want, timer.C)
			window.Waited(before, len(asked), time.Since(began))
		}
		ops := make([]shard.Op, len(asked))
		for i, a := range asked {
			ops[i] = a.Op
		}
		began := time.Now()
		done, err := l.Apply(ctx, ops)
		window.Applied(len(ops), len(queue), time.Since(began))
		if err == nil {
			applied(done)
		}
		for i, a := range asked {
			if err != nil {
				a.Answer <- Answer{Err: err}
				continue
			}
			a.Answer <- Answer{Outcome: done.Outcomes[i]}
		}
	}
}

// fill takes from the queue until there are n, or until over tells; with no over,
// until nothing is there.
func fill(asked []Asked, queue <-chan Asked, n int, over <-chan time.Time) []Asked {
	for len(asked) < n {
		if over == nil {
			select {
			case a, ok := <-queue:
				if !ok {
					return asked
				}
				asked = append(asked, a)
			default:
				return asked
			}
			continue
		}
		select {
		case a, ok := <-queue:
			if !ok {
				return asked
			}
			asked = append(asked, a)
		case <-over:
			return asked
		}
	}
	return asked
}
