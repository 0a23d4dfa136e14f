package proposals

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Each calls one for 0 to n-1, at most workers at a time, and returns the first error when all
// goroutines have ended. The first error ends the context of all calls.
func Each(ctx context.Context, n, workers int, one func(context.Context, int) error) error {
	if n == 1 {
		return one(ctx, 0)
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(n, workers) {
		g.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := one(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
