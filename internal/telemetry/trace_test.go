package telemetry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"cellgate/internal/fault"
)

const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	sampled   = "00-" + traceID + "-b7ad6b7169203331-01"
	unsampled = "00-" + traceID + "-b7ad6b7169203331-00"
)

// runs runs p until the test ends or stop is called.
func runs(t *testing.T, p *Process) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

// request enters the gateway with a traceparent, or "" for none.
func request(t *testing.T, p *Process, parent string, handler func(context.Context) error) {
	t.Helper()
	ctx := t.Context()
	if parent != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs(headerParent, parent))
	}
	requests := p.Gateway().requests
	_, _ = requests.unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/cellgate.v1.Scheduler/SelectDestinations"},
		func(ctx context.Context, _ any) (any, error) { return nil, handler(ctx) })
}

func TestOnlySampledRequestsAreRecorded(t *testing.T) {
	for _, c := range []struct {
		parent string
		ratio  float64
		want   int
	}{
		{"", 0, 0},
		{unsampled, 0, 0},
		{unsampled, 1, 0},
		{sampled, 0, 2},
		{"", 1, 2},
		{"nonsense", 0, 0},
		{"nonsense", 1, 2},
	} {
		memory := &tracetest.InMemoryExporter{}
		kept := &keeping{SpanExporter: memory}
		p := newProcess(t, Traces{Own: kept, Ratio: c.ratio})
		stop := runs(t, p)
		request(t, p, c.parent, func(ctx context.Context) error {
			_, step := p.Gateway().Stage(ctx, StageAdmit)
			step.End(nil)
			return nil
		})
		stop()
		if n := len(kept.spans); n != c.want {
			t.Errorf("traceparent %q, ratio %v: %d spans, want %d", c.parent, c.ratio, n, c.want)
		}
	}
}

// keeping keeps spans beyond Shutdown.
type keeping struct {
	sdktrace.SpanExporter
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
}

func (k *keeping) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, spans...)
	return nil
}

func TestErrorsAreOutcomesAndKeepTheirCausesToThemselves(t *testing.T) {
	for want, err := range map[string]error{
		OK: nil, Canceled: context.Canceled, Deadline: context.DeadlineExceeded, "INTERNAL": errors.New("x"),
		"NO_VALID_HOST": fault.New(fault.NoValidHost, "x"), other: fault.New("MADE_UP", "x"),
	} {
		if got := outcomeOf(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
	secret := fault.Wrap(fault.CellUnavailable, errors.New("secret"), "cell1 does not answer")
	if got := messageOf(secret); got != "cell1 does not answer" {
		t.Errorf("words %q", got)
	}
	if got := messageOf(errors.New("secret")); strings.Contains(got, "secret") {
		t.Errorf("words %q", got)
	}
}

func TestCollector_Unreachable_CostsNothingAndIsLoggedOnce(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := dead.Addr().String()
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	failOpen(t, addr)
}

func TestCollector_Hangs_CostsNothingAndIsLoggedOnce(t *testing.T) {
	hangs, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hangs.Close() }()
	failOpen(t, hangs.Addr().String())
}

// fewSpans is a queue that a test soon fills: less than one full export.
const fewSpans = 200

// failOpen checks that requests continue while a collector accepts nothing. The log says so once.
func failOpen(t *testing.T, addr string) {
	t.Helper()
	log := &lines{}
	p, err := New(Traces{Exporter: ExportOTLP, Endpoint: "http://" + addr, Ratio: 1, queue: fewSpans, linger: time.Millisecond, within: 20 * time.Millisecond, flush: 100 * time.Millisecond}, Build{}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	stop := runs(t, p)
	for range 5 * fewSpans {
		request(t, p, "", func(context.Context) error { return nil })
	}
	stop()
	if n := strings.Count(log.String(), "traces cannot be exported"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, log)
	}
}

// lines is a buffer for several goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// stuck hangs until let is closed, whatever its context says.
type stuck struct {
	tracetest.NoopExporter
	let chan struct{}
}

func (s *stuck) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { <-s.let; return nil }

func TestAnExporterThatHeedsNothingDoesNotHoldTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		p := newProcess(t, Traces{Own: &stuck{let: let}, Ratio: 1, queue: fewSpans})
		stop := runs(t, p)
		began := time.Now()
		for range 2 * fewSpans {
			request(t, p, "", func(context.Context) error { return nil })
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("requests waited %v", took)
		}
		stop()
		if took := time.Since(began); took > 3*flushWithin {
			t.Errorf("stopping took %v", took)
		}
		close(let)
		synctest.Wait()
	})
}

func TestTheFileOfSpansIsBoundedAndIsNoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spans.jsonl")
	p := newProcess(t, Traces{Exporter: ExportFile, File: path, FileBytes: 20_000, Ratio: 1, linger: time.Millisecond})
	stop := runs(t, p)
	for range 1000 {
		request(t, p, "", func(context.Context) error { return fault.New(fault.Contended, "lost") })
	}
	stop()
	// A batch is written as a whole, so a file may exceed its bound by one batch.
	most := int64(20_000 + sentTogether*600)
	for _, f := range []string{path, path + ".1"} {
		info, err := os.Stat(f)
		if err != nil || info.Size() > most || info.Size() == 0 {
			t.Errorf("%s: %v %v", f, info, err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), `"error":"CONTENDED"`) {
		t.Errorf("%v\n%.300s", err, text)
	}
	if _, err := New(Traces{Exporter: ExportFile, File: t.TempDir()}, Build{}, nil); err == nil {
		t.Error("a directory is taken as a file")
	}
}

func TestRecordsOfATracedRequestHaveItsIds(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(LogHandler(slog.NewTextHandler(&out, nil))).With("cell", "cell1").WithGroup("g")
	p := newProcess(t, Traces{})
	for _, parent := range []string{sampled, unsampled} {
		out.Reset()
		request(t, p, parent, func(ctx context.Context) error { log.InfoContext(ctx, "x"); return nil })
		if !strings.Contains(out.String(), "trace_id="+traceID) || !strings.Contains(out.String(), "span_id=b7ad6b7169203331") {
			t.Errorf("%s: %s", parent, &out)
		}
	}
	out.Reset()
	log.Info("y")
	if strings.Contains(out.String(), "trace_id") {
		t.Errorf("a record without a request: %s", &out)
	}
}
