package proposals

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEach_OneCallFails_OtherCallIsCancelled(t *testing.T) {
	bad := errors.New("bad")
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			var started, cancelled atomic.Int64
			both := make(chan struct{})
			err := Each(t.Context(), 2, 2, func(ctx context.Context, n int) error {
				if started.Add(1) == 2 {
					close(both)
				}
				<-both
				if n == i%2 {
					return bad
				}
				select {
				case <-ctx.Done():
					cancelled.Add(1)
				case <-time.After(time.Minute):
				}
				return nil
			})
			if !errors.Is(err, bad) || cancelled.Load() != 1 {
				t.Errorf("call %d failed: %v, and %d calls were cancelled", i%2, err, cancelled.Load())
			}
		})
	}
}
