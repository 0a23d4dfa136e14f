package telemetry

import (
	"context"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// requestMeter is the outermost interceptor of a server. It sees the caller's answers, and counts, times and
// traces calls by method. Methods are those of the protos, so there are few.
type requestMeter struct {
	part              *part
	requests, seconds *Metric
	// mark sets the attributes of a span of the server.
	mark func(Span)
	// untraced names a method whose calls carry many requests.
	untraced string
}

func (m *requestMeter) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	rpc := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	ctx, span := m.enter(ctx, strings.TrimPrefix(info.FullMethod, "/"))
	resp, err := handler(ctx, req)
	outcome := outcomeOf(err)
	m.part.add(m.requests, 1, rpc, outcome)
	m.part.observe(m.seconds, time.Since(began).Seconds(), rpc)
	if span.On() {
		span.Text(AttrOutcome, outcome)
		span.End(err)
	}
	return resp, err
}

// enter continues the caller's trace, or starts one with the probability ratio.
func (m *requestMeter) enter(ctx context.Context, name string) (context.Context, Span) {
	parent := first(ctx, headerParent)
	if parent == "" && !m.part.p.traces.roots || name == m.untraced {
		return ctx, Span{}
	}
	ctx = m.part.p.traces.under(ctx, parent, first(ctx, headerState))
	if at := trace.SpanContextFromContext(ctx); at.IsValid() && !at.IsSampled() {
		return ctx, Span{}
	}
	ctx, started := m.part.p.traces.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if started.SpanContext().IsSampled() {
		m.part.p.traces.met.Store(true)
	}
	if !started.IsRecording() {
		return ctx, Span{}
	}
	span := Span{started}
	span.Text(AttrRPC, name)
	m.mark(span)
	return ctx, span
}

func first(ctx context.Context, key string) string {
	if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// FromHTTP returns the trace of a REST request as metadata for the resulting call.
func FromHTTP(_ context.Context, r *http.Request) metadata.MD {
	parent := r.Header.Get(headerParent)
	if parent == "" {
		return nil
	}
	md := metadata.Pairs(headerParent, parent)
	if state := r.Header.Get(headerState); state != "" {
		md.Set(headerState, state)
	}
	return md
}

// DialOption makes a connection's unary calls carry the trace of their context.
func DialOption() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
			ctx = metadata.AppendToOutgoingContext(ctx, headerParent, traceParentOf(c))
			if state := c.TraceState().String(); state != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, headerState, state)
			}
		}
		return invoke(ctx, method, req, reply, conn, opts...)
	})
}
