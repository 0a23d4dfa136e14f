package ingress

import (
	"context"
	"net"
	"time"
)

// Bounds of calls that need no credential: how many at once, in total and from one address, and how
// long one may take.
const (
	openCalls        = 1024
	openAddressCalls = 64
	// OpenWithin is the limit of a unary call, OpenStreamWithin of a stream.
	OpenWithin       = 10 * time.Second
	OpenStreamWithin = 10 * time.Minute
)

// Open counts a call that needs no credential until it ends or its time is over. It returns the call's
// context. The error is OVERLOADED.
func (in *Ingress) Open(ctx context.Context, addr net.Addr, within time.Duration) (context.Context, error) {
	from := HostOf(addr.String())
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.openTotal >= openCalls || in.openFrom[from] >= openAddressCalls {
		in.limits.OnRefused(BoundOpen)
		return ctx, overloaded("too many calls of callers that did not say who they are")
	}
	in.openTotal++
	in.openFrom[from]++
	ctx, cancel := context.WithTimeout(ctx, within)
	context.AfterFunc(ctx, func() {
		cancel()
		in.mu.Lock()
		defer in.mu.Unlock()
		in.openTotal--
		countDown(in.openFrom, from)
	})
	return ctx, nil
}

// Call counts a call of an agent's credential until ctx ends. The error is OVERLOADED.
func (in *Ingress) Call(ctx context.Context, caller string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.calls[caller] >= in.limits.CallerCalls {
		in.limits.OnRefused(BoundCallerCalls)
		return overloaded("too many calls of one credential are under way")
	}
	in.calls[caller]++
	context.AfterFunc(ctx, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		countDown(in.calls, caller)
	})
	return nil
}

// countDown decrements a count, and removes it at 0.
func countDown(counts map[string]int, of string) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}
