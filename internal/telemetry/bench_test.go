package telemetry

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
)

// BenchmarkSelection measures the telemetry of one selection over three cells, without a trace.
func BenchmarkSelection(b *testing.B) {
	p, err := New(Traces{}, Build{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	g, c := p.Gateway(), p.Cell("cell1", "r1")
	l := g.Link("cell1")
	info := &grpc.UnaryServerInfo{FullMethod: "/cellgate.v1.Scheduler/SelectDestinations"}
	at := &grpc.UnaryServerInfo{FullMethod: "/cellgate.cell.v1.CellScheduler/ProposeBatch"}
	handle := func(context.Context, any) (any, error) { return nil, nil }
	choose := func(ctx context.Context, _ any) (any, error) {
		for _, s := range Stages() {
			_, step := g.Stage(ctx, s)
			step.End(nil)
		}
		for range 3 {
			_, span := l.Span(ctx, SpanAsk)
			g.Sent(1)
			_, _ = c.requests.unary(ctx, nil, at, handle)
			_, propose := c.Propose(ctx, "")
			c.Proposed(time.Millisecond)
			propose.End(nil)
			l.Called(ctx, nil, time.Millisecond, nil)
			l.Searched("SEARCHED")
			g.Rejected("ResourceFilter", 3)
			span.End(nil)
		}
		c.QueueWaited(true, time.Millisecond)
		c.Transaction(1, time.Millisecond, nil)
		c.Operation("claim", "")
		_, _ = c.requests.unary(ctx, nil, at, handle)
		l.Called(ctx, nil, time.Millisecond, nil)
		g.Merged(1, 1)
		g.Answered(1, "", false)
		return nil, nil
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = g.requests.unary(b.Context(), nil, info, choose)
	}
}
