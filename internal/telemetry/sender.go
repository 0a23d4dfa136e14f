package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// queuedSpans is how many spans may wait to be sent; more are dropped. A span takes a few hundred
	// bytes.
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

// sender passes spans to the SDK's batches, and counts the outcome of each: exported, queue_full or
// export_failed. It never blocks.
type sender struct {
	exporter sdktrace.SpanExporter
	log      *slog.Logger
	count    func(end string, n int)

	batches sdktrace.SpanProcessor
	queue   int
	flush   time.Duration
	// waiting counts the spans that were accepted and not exported yet.
	waiting atomic.Int64
	// failing: the last export failed, and that was logged.
	failing bool
}

func newSender(e sdktrace.SpanExporter, t Traces, log *slog.Logger, count func(string, int)) *sender {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &sender{exporter: e, log: log, count: count, queue: cmp.Or(t.queue, queuedSpans), flush: cmp.Or(t.flush, flushWithin)}
	s.batches = sdktrace.NewBatchSpanProcessor(counting{s}, sdktrace.WithMaxQueueSize(s.queue), sdktrace.WithMaxExportBatchSize(sentTogether),
		sdktrace.WithBatchTimeout(cmp.Or(t.linger, lingerFor)), sdktrace.WithExportTimeout(cmp.Or(t.within, exportWithin)))
	return s
}

// run waits for the end of ctx. Then it exports the remaining spans, for flush at most. It does not
// wait for an exporter that hangs and ignores its context.
func (s *sender) run(ctx context.Context) {
	<-ctx.Done()
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.flush)
	defer cancel()
	if err := s.batches.Shutdown(within); err != nil {
		s.log.Warn("the exporter of traces did not stop in order", "err", err)
	}
}

// processor drops spans while too many wait.
type processor struct {
	sdktrace.SpanProcessor
	s *sender
}

func (p processor) OnEnd(span sdktrace.ReadOnlySpan) {
	switch {
	case !span.SpanContext().IsSampled():
	case p.s.waiting.Add(1) > int64(p.s.queue):
		p.s.waiting.Add(-1)
		p.s.count("queue_full", 1)
	default:
		p.SpanProcessor.OnEnd(span)
	}
}

// counting exports one batch or drops it. It logs when exports begin to fail and when they work again.
type counting struct{ s *sender }

func (e counting) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	s := e.s
	defer s.waiting.Add(int64(-len(batch)))
	err := s.exporter.ExportSpans(ctx, batch)
	switch {
	case err != nil && !s.failing:
		s.log.Warn("traces cannot be exported; their spans are dropped and counted", "err", err)
	case err == nil && s.failing:
		s.log.Info("traces are exported again")
	}
	if s.failing = err != nil; err != nil {
		s.count("export_failed", len(batch))
		return nil // logged above
	}
	s.count("exported", len(batch))
	return nil
}

func (e counting) Shutdown(ctx context.Context) error { return e.s.exporter.Shutdown(ctx) }
