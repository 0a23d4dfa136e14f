package mirror

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"cellgate/gateway/placement"
	"cellgate/internal/ingress"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 4 << 20

// TapConfig configures a tap.
type TapConfig struct {
	// MaxPending bounds the objects that wait to be copied. If more are written, a pass compares everything instead;
	// 0 for 10,000.
	MaxPending int
	// RetryAfter is the wait before a failed copy is repeated; 0 for 2 s.
	RetryAfter time.Duration
	// FinishWithin is how long Run goes on with pending copies after its context ended; 0 for 5 s.
	FinishWithin time.Duration
	// PassEvery is how often a pass compares everything, after the one at the start; 0 for an hour.
	PassEvery time.Duration
	// CompareReads bounds the source's answers to reads that wait for comparison with the target's; further ones are
	// not compared; 0 for 100.
	CompareReads int
	// CompareSettled is how long a read that differs waits for copies before it is repeated; 0 for 5 s.
	CompareSettled time.Duration
	// Ingress bounds the bytes of bodies, which a tap reads before anybody has judged the caller; nil: they are not
	// bounded in total.
	Ingress *ingress.Ingress
}

func (c TapConfig) withDefaults() TapConfig {
	c.MaxPending = cmp.Or(c.MaxPending, 10_000)
	c.RetryAfter = cmp.Or(c.RetryAfter, 2*time.Second)
	c.FinishWithin = cmp.Or(c.FinishWithin, 5*time.Second)
	c.PassEvery = cmp.Or(c.PassEvery, time.Hour)
	c.CompareReads = cmp.Or(c.CompareReads, 100)
	c.CompareSettled = cmp.Or(c.CompareSettled, 5*time.Second)
	return c
}

// Tap serves the Placement API from the mirror's source, and has the mirror copy what callers wrote through it.
// Callers only wait for the source: a target that does not answer delays nobody, and gets the missed writes later.
//
// Only Run copies.
type Tap struct {
	cfg    TapConfig
	mirror *Mirror
	// front answers callers: a proxy of the source.
	front http.Handler
	// compared answers reads from the target, for comparison; nil: reads are not compared.
	compared http.Handler
	log      *slog.Logger
	queue    *queue
	reads    chan read

	mu     sync.Mutex
	status Status
	// begun counts the writes that were forwarded, running those without an answer yet.
	begun, running int
}

// NewTap makes a tap. front answers callers: a proxy of the source of m. Reads are compared with the answers of
// compared, unless it is nil.
func NewTap(cfg TapConfig, m *Mirror, front, compared http.Handler, log *slog.Logger) *Tap {
	cfg = cfg.withDefaults()
	return &Tap{
		cfg: cfg, mirror: m, front: front, compared: compared, log: log,
		queue: newQueue(cfg.MaxPending), reads: make(chan read, cfg.CompareReads), status: Status{ReadsDiffer: map[string]int{}},
	}
}

// Proxy forwards to the Placement at base. It strips the prefix /cells/NAME from paths.
func Proxy(base string, transport http.RoundTripper, log *slog.Logger) (http.Handler, error) {
	target, err := url.Parse(base)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("the address %q of Placement is no URL", base)
	}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			_, path := placement.SplitCell(r.In.URL.Path)
			r.Out.URL.Path, r.Out.URL.RawPath = path, ""
			r.SetURL(target)
			r.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if !errors.Is(err, context.Canceled) {
				log.Error("Placement does not answer what was forwarded to it.", "method", r.Method, "path", r.URL.Path, "error", err)
			}
			http.Error(w, "Placement does not answer", http.StatusServiceUnavailable) // which callers repeat
		},
	}, nil
}

// ServeHTTP forwards a request, and queues the objects that it wrote for a copy.
func (t *Tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cell, path := placement.SplitCell(r.URL.Path)
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		t.forwardRead(w, r, path)
		return
	}
	release, err := t.charge(r)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer release()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		status := http.StatusBadRequest
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			status = http.StatusRequestEntityTooLarge
			placement.DiscardBody(r)
		}
		http.Error(w, err.Error(), status)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	answer := &recorder{ResponseWriter: w}
	// A write may have been done unless its answer is a redirect or a 4xx: the caller may be gone before an answer
	// comes.
	done := false
	defer t.beginWrite()()
	defer func() {
		if !done || answer.status < 300 || answer.status >= 500 {
			t.queueWritten(writtenBy(r.Method, path, body, answer.Header().Get("Location"), cell))
		}
	}()
	t.front.ServeHTTP(answer, r)
	done = true
}

// charge counts the bytes of a request's body until release is called.
func (t *Tap) charge(r *http.Request) (release func(), err error) {
	size := min(r.ContentLength, maxBody)
	if size < 0 {
		size = maxBody // the length is not known: assume the most
	}
	if t.cfg.Ingress == nil {
		return func() {}, nil
	}
	return t.cfg.Ingress.Body(ingress.HostOf(r.RemoteAddr), size)
}

// beginWrite counts a write that is forwarded; the caller calls finish once the write was answered and queued.
func (t *Tap) beginWrite() (finish func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun++
	t.running++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.running--
	}
}

func (t *Tap) queueWritten(list []object) {
	for _, one := range list {
		t.queue.add(one)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Writes++
}

// recorder keeps the status of an answer, and its body if that has at most keep bytes.
type recorder struct {
	http.ResponseWriter
	status int
	keep   int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = cmp.Or(r.status, status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.status = cmp.Or(r.status, http.StatusOK)
	if r.keep > 0 {
		if r.body.Len()+len(b) > r.keep {
			r.keep = 0 // too long
		} else {
			r.body.Write(b)
		}
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap serves http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Run copies queued objects, compares reads, and makes a pass at the start and every PassEvery. After ctx has ended,
// it returns once all queued objects are copied or FinishWithin has passed; Status tells what is pending. It also
// returns, with a DeletionsError, if the first pass would delete most of the target's providers.
func (t *Tap) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	copying, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(t.cfg.FinishWithin, stop) })()
	var parts sync.WaitGroup
	for range t.mirror.parallel {
		parts.Go(func() { t.copyQueued(ctx, copying) })
	}
	if t.compared != nil {
		parts.Go(func() { t.compareReads(ctx) })
	}
	var refused error
	parts.Go(func() {
		refused = t.passOver(ctx)
		end()
	})
	parts.Wait()
	return refused
}

// passOver makes a pass at the start, every PassEvery, and when the queue was full. Passes after the first may delete
// any number of providers, since both sides were equal once.
func (t *Tap) passOver(ctx context.Context) error {
	first, failed := true, ""
	for {
		report, err := t.mirror.Pass(ctx, PassConfig{AllowDeletions: !first})
		wait := t.cfg.PassEvery
		switch refused := (*DeletionsError)(nil); {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &refused):
			return refused
		case err != nil:
			if failed != err.Error() {
				failed = err.Error()
				t.log.Warn("Comparing with Placement failed; it is tried again.", "every", t.cfg.RetryAfter, "error", err)
			}
			wait = t.cfg.RetryAfter
		default:
			first, failed = false, ""
			t.log.Info("Compared with Placement.", "providers", report.Providers, "consumers", report.Consumers, "differences", report.Counts, "not_put_right", report.Failed)
			t.mu.Lock()
			t.status.Passes++
			t.mu.Unlock()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-t.queue.overflow:
		}
		timer.Stop()
	}
}

// copyQueued copies one queued object after the other, until ctx has ended and none waits; copying bounds each copy.
func (t *Tap) copyQueued(ctx, copying context.Context) {
	for {
		one, ok := t.queue.next(ctx)
		if !ok {
			return
		}
		err := t.copyObject(copying, one)
		t.mu.Lock()
		if err == nil {
			t.status.Copied++
		} else {
			t.status.CopyFailed++
			t.status.LastError = fmt.Sprintf("%s %s: %v", one.kind, one.id, err)
		}
		t.mu.Unlock()
		if t.queue.done(one, err, t.cfg.RetryAfter) && ctx.Err() == nil {
			t.log.Warn("What was written to Placement is not copied yet.", "kind", one.kind, "object", one.id, "try_again_every", t.cfg.RetryAfter, "error", err)
		}
	}
}

func (t *Tap) copyObject(ctx context.Context, one object) (err error) {
	switch one.kind {
	case providerObject:
		err = t.mirror.CopyProvider(ctx, one.id, one.cell)
	case consumerObject:
		err = t.mirror.CopyConsumer(ctx, one.id)
	case namesObject:
		err = t.mirror.CopyNames(ctx, one.names)
	}
	if placement.ReasonOf(err) == placement.AgentTree {
		return nil // the reports of passes count the objects of agents
	}
	return err
}
