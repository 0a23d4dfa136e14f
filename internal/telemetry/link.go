package telemetry

import (
	"context"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Link is a gateway's telemetry of its link to one cell.
type Link struct{ *part }

// Link makes the handle of a configured cell.
func (g Gateway) Link(cell string) Link {
	l := Link{g.below(cell)}
	l.show(gatewayDoubts, gatewayQueueRefused)
	return l
}

// Called counts and times a call, by its request's message. err is why it failed; if ctx ended, its
// error takes precedence.
func (l Link) Called(ctx context.Context, req any, took time.Duration, err error) {
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	rpc := rpcOf(req)
	l.observe(gatewayCallSeconds, took.Seconds(), rpc)
	if err != nil {
		l.add(gatewayCallErrors, 1, rpc, outcomeOf(err))
	}
}

// rpcOf returns the method for a request message: the message's name without "Request".
func rpcOf(req any) string {
	var name protoreflect.Name = other
	if m, ok := req.(proto.Message); ok {
		name = m.ProtoReflect().Descriptor().Name()
	}
	return strings.TrimSuffix(string(name), "Request")
}

// Span starts a span below ctx's, with the cell's name.
func (l Link) Span(ctx context.Context, name SpanName) (context.Context, Span) {
	ctx, span := l.span(ctx, name.Name)
	if span.On() {
		span.Text(AttrCell, l.labels[0])
	}
	return ctx, span
}

// Searched counts the outcome of the cell in a selection, which is the name of a CellOutcome.
func (l Link) Searched(outcome string) {
	l.add(gatewaySearches, 1, inList(labelSearch, strings.ToLower(outcome)))
}

// Doubted counts claims with an unknown outcome.
func (l Link) Doubted(claims int) { l.add(gatewayDoubts, claims) }

// QueueRefused counts an operation that was refused because the queue to the cell was full.
func (l Link) QueueRefused() { l.add(gatewayQueueRefused, 1) }

// Breaker makes the handle of the breaker for the replica at an address, in the state closed.
func (l Link) Breaker(address string) Breaker {
	b := Breaker{l.below(address)}
	b.show(gatewayBreaker)
	return b
}

// Breaker is the telemetry of a replica's breaker.
type Breaker struct{ *part }

// Moved records that the breaker changed to a state, whose number is the metric's value.
func (b Breaker) Moved(to gobreaker.State) {
	b.set(gatewayBreaker, float64(to))
	b.add(gatewayBreakerMoves, 1, inList(labelBreaker, to.String()))
}
