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

// tally counts what is under way, in total and by caller, up to a limit of each.
type tally struct {
	total, most, mostEach int
	each                  map[string]int
	// bound and boundEach name the limits.
	bound, boundEach Bound
}

func newTally(most int, bound Bound, mostEach int, boundEach Bound) tally {
	return tally{most: most, mostEach: mostEach, each: map[string]int{}, bound: bound, boundEach: boundEach}
}

// begin counts one more of a caller until it calls done; it returns false if a limit forbids that. A caller "" counts
// only in the total.
func (in *Ingress) begin(t *tally, caller string) (done func(), ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case t.total >= t.most:
		in.limits.OnRefused(t.bound)
		return nil, false
	case caller != "" && t.each[caller] >= t.mostEach:
		in.limits.OnRefused(t.boundEach)
		return nil, false
	}
	t.total++
	t.each[caller]++
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		t.total--
		if t.each[caller]--; t.each[caller] == 0 {
			delete(t.each, caller)
		}
	}, true
}

// Open counts a call that needs no credential until it ends or its time is over. It returns the call's
// context. The error is OVERLOADED.
func (in *Ingress) Open(ctx context.Context, addr net.Addr, within time.Duration) (context.Context, error) {
	done, ok := in.begin(&in.open, HostOf(addr.String()))
	if !ok {
		return ctx, overloaded("too many calls of callers that did not say who they are")
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	context.AfterFunc(ctx, func() {
		cancel()
		done()
	})
	return ctx, nil
}

// Call counts a call of an agent's credential until ctx ends. The error is OVERLOADED.
func (in *Ingress) Call(ctx context.Context, caller string) error {
	done, ok := in.begin(&in.calls, caller)
	if !ok {
		return overloaded("too many calls of one credential are under way")
	}
	context.AfterFunc(ctx, done)
	return nil
}
