package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"cellgate/internal/testwait"
)

// process is a command that runs until it is stopped.
type process struct {
	t      *testing.T
	cancel context.CancelFunc
	status chan int
	lines  *lineQueue
	log    *bytes.Buffer
}

// listen returns a listener at a free port; the test closes it.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serveGRPC serves at l what register registers, until stop is called or the test ends.
func serveGRPC(t *testing.T, l net.Listener, register func(*grpc.Server)) (stop func()) {
	s, ended := grpc.NewServer(), make(chan error, 1)
	register(s)
	go func() { ended <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// launch starts a command. await reads its output, or its log if fromLog. The command never blocks
// on its reader.
func launch(t *testing.T, fromLog bool, args ...string) *process {
	t.Helper()
	return launchIn(t, nil, fromLog, args...)
}

// launchIn starts a command with additional environment variables.
func launchIn(t *testing.T, env []string, fromLog bool, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &process{t: t, cancel: cancel, status: make(chan int, 1), lines: newLineQueue(), log: &bytes.Buffer{}}
	term := terminal{in: strings.NewReader(""), out: p.lines, err: &locked{w: p.log}, env: env}
	if fromLog {
		term.out, term.err = io.Discard, p.lines
	}
	go func() {
		p.status <- run(ctx, args, term)
		p.lines.finish()
	}()
	t.Cleanup(func() {
		p.cancel()
		p.ended()
	})
	return p
}

// lineQueue keeps written text until it is read, line by line.
type lineQueue struct {
	mu      sync.Mutex
	partial []byte
	waiting []string
	ended   bool
	// changed is closed and replaced whenever there is something new to read.
	changed chan struct{}
}

func newLineQueue() *lineQueue { return &lineQueue{changed: make(chan struct{})} }

func (q *lineQueue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.partial = append(q.partial, b...)
	for {
		line, rest, whole := bytes.Cut(q.partial, []byte("\n"))
		if !whole {
			break
		}
		q.waiting = append(q.waiting, string(line))
		q.partial = rest
	}
	q.wakeReaders()
	return len(b), nil
}

// finish marks the end of the writer.
func (q *lineQueue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.partial) > 0 {
		q.waiting, q.partial = append(q.waiting, string(q.partial)), nil
	}
	q.ended = true
	q.wakeReaders()
}

func (q *lineQueue) wakeReaders() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// next returns the oldest line. ok is false if the writer has ended, or ctx has.
func (q *lineQueue) next(ctx context.Context) (line string, ok bool) {
	for {
		q.mu.Lock()
		if len(q.waiting) > 0 {
			line, q.waiting = q.waiting[0], q.waiting[1:]
			q.mu.Unlock()
			return line, true
		}
		ended, changed := q.ended, q.changed
		q.mu.Unlock()
		if ended {
			return "", false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", false
		}
	}
}

// locked serializes writes.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// await reads lines until one matches and gives the submatches.
func (p *process) await(pattern string) []string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), testwait.Limit)
	defer cancel()
	re := regexp.MustCompile(pattern)
	var seen []string
	for {
		line, ok := p.lines.next(ctx)
		if !ok {
			break
		}
		if m := re.FindStringSubmatch(line); m != nil {
			return m
		}
		seen = append(seen, line)
	}
	p.t.Fatalf("ended (or %s passed) without a line like %s:\n%s\n%s", testwait.Limit, pattern, strings.Join(seen, "\n"), p.log)
	return nil
}

// ended waits until the process has printed its last line.
func (p *process) ended() {
	for ok := true; ok; {
		_, ok = p.lines.next(context.Background())
	}
}

// stop ends the process and requires a clean exit.
func (p *process) stop() {
	p.t.Helper()
	p.cancel()
	p.ended()
	if s := <-p.status; s != exitDone {
		p.t.Fatalf("ended with status %d\n%s", s, p.log)
	}
}
