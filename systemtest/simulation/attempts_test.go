package simulation

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
)

// mostAttempts is how often calls over a connection may be tried anew in one instant: for as
// long as the goroutine that finds it broken has no processor, a call is.
const mostAttempts = 100_000

// attempts counts how often gRPC tries calls over a connection anew by itself. Where time
// does not pass meanwhile it does nothing else: in a process such a loop takes a processor,
// and a bubble it stops.
type attempts struct {
	network  *network
	from, to string

	mu sync.Mutex
	at time.Time
	n  int
}

func (a *attempts) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (a *attempts) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (a *attempts) HandleConn(context.Context, stats.ConnStats)                       {}

// HandleRPC notes that an attempt begins. A connection over which there are too many is cut.
func (a *attempts) HandleRPC(_ context.Context, s stats.RPCStats) {
	if b, is := s.(*stats.Begin); !is || !b.IsTransparentRetryAttempt {
		return
	}
	now := time.Now()
	a.mu.Lock()
	if !a.at.Equal(now) {
		a.at, a.n = now, 0
	}
	a.n++
	tooMany := a.n == mostAttempts
	a.mu.Unlock()
	if tooMany {
		a.network.wrong("calls of %s to %s are tried again and again, and no time passes", a.from, a.to)
		a.network.cut(a.from, a.to)
	}
}
