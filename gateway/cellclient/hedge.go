package cellclient

import (
	"context"
	"errors"
	"time"
)

// hedged does a call that may be repeated at one replica, and after half of its
// budget at the next one as well, without giving up the first: so a replica that
// hangs costs half a budget, and one that is slow because all are is still waited
// for. The answer is the first that comes; an error is given when both failed. The
// second call is a retry, of the cell's retry budget.
func hedged[T any](ctx context.Context, c *Cell, a callOptions, once func(context.Context, *Replica, *pass) (T, error)) (T, error) {
	type tried struct {
		got T
		err error
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan tried, 2)
	// Each ends when its budget or ctx does.
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
			// What one of them did not send the other one may have done.
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
