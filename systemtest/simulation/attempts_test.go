package simulation

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/stats"
)

// mostAttempts is how often calls over a connection may be retried in one instant. gRPC retries a
// call until the goroutine that finds the connection broken gets a processor.
const mostAttempts = 100_000

// attempts counts gRPC's transparent retries. If no time passes between them, gRPC loops: in a
// process that uses up a processor, and it stops the clock of a bubble.
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

// HandleRPC counts an attempt. It cuts a connection that has too many.
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
