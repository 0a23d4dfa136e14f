package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// The exporters.
const (
	ExportNone = "none"
	ExportOTLP = "otlp"
	ExportFile = "file"
)

// Traces configures which requests are traced and where their spans go.
type Traces struct {
	// Exporter is one of the constants above; "" means none.
	Exporter string
	// Endpoint is the URL of OTLP over gRPC: http:// for plaintext, https:// for TLS.
	Endpoint string
	// Ratio is the fraction, from 0 to 1, of the requests without a trace that are traced nevertheless.
	// A request with a trace is traced if its caller sampled the trace.
	Ratio float64
	// File receives a line of JSON for each span. At FileBytes (0 means 64 MiB) it is renamed to
	// File.1, replacing an older one.
	File      string
	FileBytes int64
	// Service is the process's name in traces.
	Service string
	// Own is an exporter that replaces Exporter.
	Own sdktrace.SpanExporter
	// queue, linger, within and flush replace the constants below in tests.
	queue                 int
	linger, within, flush time.Duration
}

const (
	// queuedSpans is how many spans may wait to be exported; more are dropped. A span takes a few
	// hundred bytes.
	queuedSpans = 4096
	// sentTogether bounds the spans of one export; lingerFor is how long the first one waits for
	// others.
	sentTogether = 512
	lingerFor    = 500 * time.Millisecond
	// exportWithin bounds the time of an export, flushWithin the time of the last exports after the
	// end.
	exportWithin = 5 * time.Second
	flushWithin  = 2 * time.Second
)

// tracing starts spans and hands them to the SDK's batches, which never block.
type tracing struct {
	tracer trace.Tracer
	// roots: requests without a trace may be sampled here.
	roots bool
	// met: some request was sampled, so contexts may have traces.
	met atomic.Bool
	// batches is nil if nothing is recorded.
	batches sdktrace.SpanProcessor
	flush   time.Duration
	log     *slog.Logger
}

func newTracing(cfg Traces, build Build, log *slog.Logger) (*tracing, error) {
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
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	t := &tracing{roots: cfg.Ratio > 0, flush: cmp.Or(cfg.flush, flushWithin), log: log}
	t.batches = sdktrace.NewBatchSpanProcessor(&loggedExporter{SpanExporter: exporter, log: log},
		sdktrace.WithMaxQueueSize(cmp.Or(cfg.queue, queuedSpans)), sdktrace.WithMaxExportBatchSize(sentTogether),
		sdktrace.WithBatchTimeout(cmp.Or(cfg.linger, lingerFor)), sdktrace.WithExportTimeout(cmp.Or(cfg.within, exportWithin)))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Ratio))),
		sdktrace.WithSpanProcessor(t.batches),
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

// loggedExporter logs when exports begin to fail and when they work again. One goroutine exports.
type loggedExporter struct {
	sdktrace.SpanExporter
	log     *slog.Logger
	failing bool
}

func (e *loggedExporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, batch)
	switch {
	case err != nil && !e.failing:
		e.log.Warn("traces cannot be exported; their spans are dropped", "err", err)
	case err == nil && e.failing:
		e.log.Info("traces are exported again")
	}
	e.failing = err != nil
	return nil // logged above
}

// Run waits until ctx ends, and then exports the remaining spans for a short while. It does not wait for
// an exporter that ignores its context. It always returns nil: a failure of telemetry must not end the
// process.
func (p *Process) Run(ctx context.Context) error {
	<-ctx.Done()
	if p == nil || p.traces.batches == nil {
		return nil
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.traces.flush)
	defer cancel()
	if err := p.traces.batches.Shutdown(within); err != nil {
		p.traces.log.Warn("the exporter of traces did not stop in order", "err", err)
	}
	return nil
}

// Span is a span that may be recorded. If it is not, it is a zero Span, whose methods do nothing. One
// goroutine at a time may use it.
type Span struct{ of trace.Span }

// On reports whether the span is recorded.
func (s Span) On() bool { return s.of != nil }

// Sampled reports whether ctx belongs to a traced request.
func Sampled(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// start starts a span below ctx's span if that is sampled.
func (t *tracing) start(ctx context.Context, name string) (context.Context, Span) {
	if t == nil || !t.met.Load() || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, name)
	return ctx, Span{span}
}

// End ends the span; err is why the covered work failed, or nil.
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

// TraceParent returns the span as a W3C traceparent for another process; "" if the span is not
// recorded.
func (s Span) TraceParent() string {
	if s.of == nil {
		return ""
	}
	return traceParentOf(s.of.SpanContext())
}

// TraceID returns the trace id of ctx's request in W3C's hex form; "" if the request is not sampled.
func TraceID(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Current returns the recorded span of ctx; a zero Span if there is none.
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

// under makes a span of another process the parent in ctx. An invalid traceparent changes nothing.
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

// newOTLP makes an exporter that connects at its first export. It does not retry: spans that a
// collector does not accept in time are dropped.
func newOTLP(endpoint string) (sdktrace.SpanExporter, error) {
	e, err := otlptracegrpc.New(context.Background(),
		otlptracegrpc.WithEndpointURL(endpoint),
		otlptracegrpc.WithTimeout(exportWithin),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: false}),
	)
	if err != nil {
		return nil, fmt.Errorf("exporter of traces to %s: %w", endpoint, err)
	}
	return e, nil
}

// LogHandler adds trace_id and span_id to log records of a traced request.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
