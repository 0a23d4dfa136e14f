package telemetry

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// methods counts and times the calls of a server, or to one cell, by method.
// Methods are those of the protos, so that there are few.
type methods struct {
	counted func(rpc, outcome string) prometheus.Counter
	timed   func(rpc string) prometheus.Observer
	known   sync.Map
}

// method is one method's series.
type method struct {
	name     string
	outcomes lazily
	seconds  prometheus.Observer
}

func (m *methods) at(full string) *method {
	if known, ok := m.known.Load(full); ok {
		return known.(*method)
	}
	name := full[strings.LastIndexByte(full, '/')+1:]
	added := &method{name: strings.TrimPrefix(full, "/"), seconds: m.timed(name)}
	added.outcomes.of = func(outcome string) prometheus.Counter { return m.counted(name, outcome) }
	known, _ := m.known.LoadOrStore(full, added)
	return known.(*method)
}

// door is the outermost interceptor of a server: it sees what the caller gets.
type door struct {
	traces  *tracing
	methods methods
	// mark sets the attributes of a span of the server.
	mark func(Span)
	// untraced names a method whose calls are of many requests.
	untraced string
}

func (d *door) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	m := d.methods.at(info.FullMethod)
	ctx, span := d.enter(ctx, m.name)
	resp, err := handler(ctx, req)
	outcome := OK
	if err != nil {
		outcome = outcomeOf(err)
	}
	m.outcomes.at(outcome).Inc()
	m.seconds.Observe(time.Since(began).Seconds())
	if span.On() {
		span.Text(AttrOutcome, outcome)
		span.End(err)
	}
	return resp, err
}

// enter continues the caller's trace, or starts one by the ratio.
func (d *door) enter(ctx context.Context, name string) (context.Context, Span) {
	parent := first(ctx, headerParent)
	if parent == "" && !d.traces.roots || name == d.untraced {
		return ctx, Span{}
	}
	ctx = d.traces.under(ctx, parent, first(ctx, headerState))
	if at := trace.SpanContextFromContext(ctx); at.IsValid() && !at.IsSampled() {
		return ctx, Span{}
	}
	ctx, started := d.traces.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if started.SpanContext().IsSampled() {
		d.traces.met.Store(true)
	}
	if !started.IsRecording() {
		return ctx, Span{}
	}
	span := Span{started}
	span.Text(AttrRPC, name)
	d.mark(span)
	return ctx, span
}

func first(ctx context.Context, key string) string {
	if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// FromHTTP is the trace of a REST request as metadata of the call it becomes.
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

// DialOption makes a connection's unary calls carry the trace they are in.
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
