package telemetry

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Link is what a gateway tells of its link to one cell.
type Link struct {
	p        *Process
	cell     string
	calls    methods
	searches lazily
	doubts   prometheus.Counter
	refused  prometheus.Counter
}

// Link makes the handle of a configured cell.
func (g *Gateway) Link(cell string) *Link {
	if g == nil {
		return nil
	}
	p := g.p
	l := &Link{p: p, cell: cell, doubts: p.counter(gatewayDoubts, cell), refused: p.counter(gatewayQueueRefused, cell)}
	l.calls.counted = func(rpc, outcome string) prometheus.Counter { return p.counter(gatewayCallErrors, cell, rpc, outcome) }
	l.calls.timed = func(rpc string) prometheus.Observer { return p.histogram(gatewayCallSeconds, cell, rpc) }
	l.searches.of = func(search string) prometheus.Counter { return p.counter(gatewaySearches, cell, search) }
	return l
}

// Called counts and times a call, by its request's message. err is why it
// failed; when ctx ended, that is why.
func (l *Link) Called(ctx context.Context, req any, took time.Duration, err error) {
	if l == nil {
		return
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	m := l.calls.at(rpcOf(req))
	m.seconds.Observe(took.Seconds())
	if err != nil {
		m.outcomes.at(outcomeOf(err)).Inc()
	}
}

// rpcOf is the method whose request a message is: the name without "Request".
func rpcOf(req any) string {
	var name protoreflect.Name = other
	if m, ok := req.(proto.Message); ok {
		name = m.ProtoReflect().Descriptor().Name()
	}
	return strings.TrimSuffix(string(name), "Request")
}

// Span starts a span below ctx's, with the cell's name.
func (l *Link) Span(ctx context.Context, name SpanName) (context.Context, Span) {
	if l == nil {
		return ctx, Span{}
	}
	ctx, span := l.p.traces.start(ctx, name.Name)
	span.Text(AttrCell, l.cell)
	return ctx, span
}

// Searched counts what became of the cell in a selection: a CellOutcome's name.
func (l *Link) Searched(outcome string) {
	if l != nil {
		l.searches.at(inList(labelSearch, strings.ToLower(outcome))).Inc()
	}
}

// Doubted counts claims whose outcome is unknown.
func (l *Link) Doubted(claims int) {
	if l != nil {
		l.doubts.Add(float64(claims))
	}
}

// QueueRefused counts operations that might not wait to be sent.
func (l *Link) QueueRefused() {
	if l != nil {
		l.refused.Inc()
	}
}

// Breaker makes the handle of the breaker of the replica at an address, closed.
func (l *Link) Breaker(address string) *Breaker {
	if l == nil {
		return nil
	}
	b := &Breaker{state: l.p.gauge(gatewayBreaker, l.cell, address)}
	b.moves.of = func(to string) prometheus.Counter { return l.p.counter(gatewayBreakerMoves, l.cell, address, to) }
	return b
}

// Breaker is what a replica's breaker tells of itself.
type Breaker struct {
	state prometheus.Gauge
	moves lazily
}

// Moved notes that the breaker went to a state.
func (b *Breaker) Moved(to BreakerState) {
	if b != nil {
		b.state.Set(float64(to))
		b.moves.at(inList(labelBreaker, to.String())).Inc()
	}
}
