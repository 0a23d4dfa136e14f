package ingress

import (
	"context"
	"net"
	"time"
)

// Bounds of calls that anybody may make: how many at once, in total and from one address, and
// how long one may take.
const (
	openCalls        = 1024
	openAddressCalls = 64
	// OpenWithin is of a call with one answer, OpenStreamWithin of a stream.
	OpenWithin       = 10 * time.Second
	OpenStreamWithin = 10 * time.Minute
)

// Open counts a call that anybody may make, until it ends or its time is over. It gives the
// call's context. The error is OVERLOADED.
func (in *Ingress) Open(ctx context.Context, addr net.Addr, within time.Duration) (context.Context, error) {
	from := HostOf(addr.String())
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.openTotal >= openCalls || in.openFrom[from] >= openAddressCalls {
		in.refused[BoundOpen]++
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
		if in.openFrom[from]--; in.openFrom[from] == 0 {
			delete(in.openFrom, from)
		}
	})
	return ctx, nil
}
