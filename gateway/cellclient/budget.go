package cellclient

import (
	"context"
	"time"
)

// StepBudget is how long one step may take: budget, but at most half of the time that the
// request has left. So a request can still act after a cell did not answer.
func StepBudget(ctx context.Context, budget time.Duration) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return min(budget, time.Until(until)/2)
	}
	return budget
}

// Pause waits for d, or until ctx ends, whose error it then gives.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
