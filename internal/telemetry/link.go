package telemetry

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Link is what a gateway tells of its link to one cell.
type Link struct{ part }

// Link makes the handle of a configured cell.
func (g *Gateway) Link(cell string) *Link {
	if g == nil {
		return nil
	}
	l := &Link{part{p: g.p, labels: []string{cell}}}
	l.show(gatewayDoubts, gatewayQueueRefused)
	return l
}

func (l *Link) series() *part {
	if l == nil {
		return nil
	}
	return &l.part
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
	rpc := rpcOf(req)
	l.observe(gatewayCallSeconds, took.Seconds(), rpc)
	if err != nil {
		l.add(gatewayCallErrors, 1, rpc, outcomeOf(err))
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
	ctx, span := l.series().span(ctx, name.Name)
	if span.On() {
		span.Text(AttrCell, l.labels[0])
	}
	return ctx, span
}

// Searched counts what became of the cell in a selection: a CellOutcome's name.
func (l *Link) Searched(outcome string) {
	l.series().add(gatewaySearches, 1, inList(labelSearch, strings.ToLower(outcome)))
}

// Doubted counts claims whose outcome is unknown.
func (l *Link) Doubted(claims int) { l.series().add(gatewayDoubts, claims) }

// QueueRefused counts operations that might not wait to be sent.
func (l *Link) QueueRefused() { l.series().add(gatewayQueueRefused, 1) }

// Breaker makes the handle of the breaker of the replica at an address, closed.
func (l *Link) Breaker(address string) *Breaker {
	if l == nil {
		return nil
	}
	b := &Breaker{part{p: l.p, labels: l.with([]string{address})}}
	b.show(gatewayBreaker)
	return b
}

// Breaker is what a replica's breaker tells of itself.
type Breaker struct{ part }

// Moved notes that the breaker went to a state.
func (b *Breaker) Moved(to BreakerState) {
	if b != nil {
		b.set(gatewayBreaker, float64(to))
		b.add(gatewayBreakerMoves, 1, inList(labelBreaker, to.String()))
	}
}
