package cellclient

import (
	"context"
	"errors"
	"time"
)

// hedged sends a repeatable call to one replica. After half of the budget it also sends it to
// the next one, without abandoning the first. So a replica that hangs costs half a budget,
// and a slow one is still waited for if all are slow. The first success is the answer; there
// is an error once both failed. The second call needs the cell's retry budget.
func hedged[T any](ctx context.Context, c *Cell, a callOptions, once func(context.Context, *Replica, *pass) (T, error)) (T, error) {
	type tried struct {
		got T
		err error
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan tried, 2)
	// Each goroutine ends with its budget or with ctx.
	start := func(a callOptions) {
		go func() {
			got, err := tryInOrder(ctx, c, a, once)
			results <- tried{got, err}
		}()
	}
	start(a)
	running := 1
	half := time.NewTimer(a.budget / 2)
	defer half.Stop()
	var failure error
	for {
		select {
		case r := <-results:
			if r.err == nil {
				return r.got, nil
			}
			// If one attempt was not sent, the other may have been done: its error counts.
			if failure == nil || errors.Is(failure, ErrNotSent) {
				failure = r.err
			}
			if running--; running == 0 {
				return r.got, failure
			}
		case <-half.C:
			rest := a
			rest.order, rest.mayRepeat = c.others(a.order), false
			rest.budget = a.budget - time.Since(began)
			if len(rest.order) > 0 && rest.budget > 0 && c.retries.spend() {
				start(rest)
				running++
			}
		}
	}
}

// others gives the replicas after the first one that may be asked now.
func (c *Cell) others(order []*Replica) []*Replica {
	for i, r := range order {
		if r.refuses() == nil {
			return order[i+1:]
		}
	}
	return nil
}
