package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The exporters there are.
const (
	ExportNone = "none"
	ExportOTLP = "otlp"
	ExportFile = "file"
)

// Traces says which requests are traced and where their spans go.
type Traces struct {
	// Exporter is one of the above; "" means none.
	Exporter string
	// Endpoint of OTLP over gRPC, as a URL: http:// for plaintext, https:// for TLS.
	Endpoint string
	// Ratio of the requests, from 0 to 1, that are traced though their caller
	// sent no trace. A request with a trace is traced when its caller samples it.
	Ratio float64
	// File takes a line of JSON for each span. At FileBytes, 0 for 64 MiB, it is
	// renamed to File.1, in place of an older one.
	File      string
	FileBytes int64
	// Service is the name that traces know the process by.
	Service string
	// Own is an exporter of the caller's, in place of Exporter.
	Own sdktrace.SpanExporter
	// queue, linger, within and flush replace the constants of sender.go in tests.
	queue                 int
	linger, within, flush time.Duration
}

// tracing starts spans and hands them to the sender.
type tracing struct {
	tracer trace.Tracer
	// roots: requests without a trace may be sampled here.
	roots bool
	// met: some request was sampled, so that contexts are worth a look.
	met atomic.Bool
	// sender is nil when nothing is recorded.
	sender *sender
}

func newTracing(cfg Traces, build Build, log *slog.Logger, count func(end string, n int)) (*tracing, error) {
	exporter := cfg.Own
	if exporter == nil {
		var err error
		if exporter, err = newExporter(cfg); err != nil {
			return nil, err
		}
	}
	if exporter == nil {
		return &tracing{tracer: noop.NewTracerProvider().Tracer("cellgate")}, nil
	}
	t := &tracing{sender: newSender(exporter, cfg, log, count), roots: cfg.Ratio > 0}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Ratio))),
		sdktrace.WithSpanProcessor(processor{t.sender.batches, t.sender}),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", cfg.Service), attribute.String("service.version", build.Version),
		)),
	)
	t.tracer = provider.Tracer("cellgate")
	return t, nil
}

func newExporter(cfg Traces) (sdktrace.SpanExporter, error) {
	switch cfg.Exporter {
	case "", ExportNone:
		return nil, nil
	case ExportOTLP:
		return newOTLP(cfg.Endpoint)
	case ExportFile:
		return openSpanFile(cfg.File, cfg.FileBytes)
	}
	return nil, fmt.Errorf("there is no exporter %q of traces", cfg.Exporter)
}

// Run sends spans until ctx ends, then what is left, for a short while. It
// returns nil: what goes wrong with telemetry ends nothing.
func (p *Process) Run(ctx context.Context) error {
	if p == nil || p.traces.sender == nil {
		<-ctx.Done()
		return nil
	}
	p.traces.sender.run(ctx)
	return nil
}

// Span is a span that may not be recorded; then, as a zero Span, its methods do
// nothing. It is used by one goroutine at a time.
type Span struct{ of trace.Span }

// On reports whether the span is recorded.
func (s Span) On() bool { return s.of != nil }

// Sampled reports whether ctx is of a request that is traced.
func Sampled(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// start starts a span below ctx's when that one is sampled.
func (t *tracing) start(ctx context.Context, name string) (context.Context, Span) {
	if t == nil || !t.met.Load() || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, Span{span}
}

// End ends the span; err is why what it covers failed, nil when it did not.
func (s Span) End(err error) {
	if s.of == nil {
		return
	}
	if err != nil {
		s.of.SetStatus(codes.Error, outcomeOf(err))
		s.of.SetAttributes(attribute.String(AttrError.Name, messageOf(err)))
	}
	s.of.End()
}

// Text sets an attribute.
func (s Span) Text(a Attribute, value string) {
	if s.of != nil {
		s.of.SetAttributes(attribute.String(a.Name, value))
	}
}

// Int sets an attribute.
func (s Span) Int(a Attribute, value int) {
	if s.of != nil {
		s.of.SetAttributes(attribute.Int(a.Name, value))
	}
}

// Bool sets an attribute.
func (s Span) Bool(a Attribute, value bool) {
	if s.of != nil {
		s.of.SetAttributes(attribute.Bool(a.Name, value))
	}
}

// TraceParent names the span for another process, as a W3C traceparent; "" when
// it is not recorded.
func (s Span) TraceParent() string {
	if s.of == nil {
		return ""
	}
	return traceParentOf(s.of.SpanContext())
}

// TraceID names the trace of ctx's request, as W3C has it in hex; "" when it is not sampled.
func TraceID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Current is the span that ctx is in.
func Current(ctx context.Context) Span {
	if s := trace.SpanFromContext(ctx); s.IsRecording() {
		return Span{s}
	}
	return Span{}
}

const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// w3c reads and writes trace contexts.
var w3c propagation.TraceContext

func traceParentOf(c trace.SpanContext) string {
	if !c.IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), c), carrier)
	return carrier[headerParent]
}

// under puts ctx below a span of another process. A text that is no traceparent
// changes nothing.
func (t *tracing) under(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	ctx = w3c.Extract(ctx, propagation.MapCarrier{headerParent: parent, headerState: state})
	if trace.SpanContextFromContext(ctx).IsSampled() {
		t.met.Store(true)
	}
	return ctx
}
