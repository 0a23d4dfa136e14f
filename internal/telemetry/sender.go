package telemetry

import (
	"context"
	"log/slog"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// queuedSpans is how many spans wait to be sent; more are dropped. A span is
	// a few hundred bytes.
	queuedSpans = 4096
	// sentTogether bounds one export, lingerFor how long the first span of one
	// waits for others.
	sentTogether = 512
	lingerFor    = 500 * time.Millisecond
	// exportWithin bounds an export, flushWithin what is done after the end.
	exportWithin = 5 * time.Second
	flushWithin  = 2 * time.Second
)

// sender is the SDK's span processor: a bounded queue that never waits, and one
// goroutine that exports.
type sender struct {
	exporter sdktrace.SpanExporter
	log      *slog.Logger
	// count hears of every span: exported, queue_full or export_failed.
	count func(end string, n int)
	queue chan sdktrace.ReadOnlySpan

	linger, within, flush time.Duration
	// failing: the last export failed, and that was logged.
	failing bool
}

func newSender(e sdktrace.SpanExporter, log *slog.Logger, count func(string, int)) *sender {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &sender{
		exporter: e, log: log, count: count, queue: make(chan sdktrace.ReadOnlySpan, queuedSpans),
		linger: lingerFor, within: exportWithin, flush: flushWithin,
	}
}

// OnStart implements sdktrace.SpanProcessor.
func (s *sender) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd queues a span, or drops it.
func (s *sender) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	select {
	case s.queue <- span:
	default:
		s.count("queue_full", 1)
	}
}

// Shutdown and ForceFlush have nothing to do: run owns the queue.
func (s *sender) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (s *sender) ForceFlush(context.Context) error { return nil }

// run exports until ctx ends, then for flush at most what is left. An exporter
// that then hangs without heeding its context is left behind.
func (s *sender) run(ctx context.Context) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.send(ctx, life)
	}()
	<-ctx.Done()
	limit := time.NewTimer(s.flush)
	defer limit.Stop()
	select {
	case <-ended:
		return
	case <-limit.C:
		end()
	}
	limit.Reset(s.flush)
	select {
	case <-ended:
	case <-limit.C:
		s.log.Warn("the exporter of traces did not stop")
	}
}

// send exports batches until ctx ends and the queue is empty; life ends what is
// being exported.
func (s *sender) send(ctx, life context.Context) {
	for {
		select {
		case first := <-s.queue:
			s.export(life, s.gather(ctx, first))
		case <-ctx.Done():
			s.drain(life)
			if err := s.exporter.Shutdown(life); err != nil && life.Err() == nil {
				s.log.Warn("closing the exporter of traces", "err", err)
			}
			return
		}
	}
}

// gather takes what comes within linger, until the batch is full or ctx ends.
func (s *sender) gather(ctx context.Context, first sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	batch := []sdktrace.ReadOnlySpan{first}
	limit := time.NewTimer(s.linger)
	defer limit.Stop()
	for len(batch) < sentTogether {
		select {
		case span := <-s.queue:
			batch = append(batch, span)
		case <-limit.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

func (s *sender) drain(life context.Context) {
	var batch []sdktrace.ReadOnlySpan
	for {
		select {
		case span := <-s.queue:
			if batch = append(batch, span); len(batch) == sentTogether {
				s.export(life, batch)
				batch = nil
			}
		default:
			if len(batch) > 0 {
				s.export(life, batch)
			}
			return
		}
	}
}

// export sends one batch or drops it. It logs when sending starts to fail and
// when it works again.
func (s *sender) export(life context.Context, batch []sdktrace.ReadOnlySpan) {
	within, cancel := context.WithTimeout(life, s.within)
	defer cancel()
	err := s.exporter.ExportSpans(within, batch)
	switch {
	case err != nil && !s.failing:
		s.log.Warn("traces cannot be exported; their spans are dropped and counted", "err", err)
	case err == nil && s.failing:
		s.log.Info("traces are exported again")
	}
	s.failing = err != nil
	if err != nil {
		s.count("export_failed", len(batch))
		return
	}
	s.count("exported", len(batch))
}
