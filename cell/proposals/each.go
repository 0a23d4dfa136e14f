package proposals

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Each calls one for 0 to n-1, at most workers at a time, and returns one of the errors when all
// goroutines have ended. An error ends the goroutine that got it; the others go on with the remaining
// calls.
func Each(ctx context.Context, n, workers int, one func(context.Context, int) error) error {
	if n == 1 {
		return one(ctx, 0)
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	some := func() error {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := one(ctx, i); err != nil {
				return err
			}
		}
	}
	for range min(n, workers) - 1 {
		g.Go(some)
	}
	err := some()
	if failed := g.Wait(); failed != nil {
		err = failed
	}
	return err
}
