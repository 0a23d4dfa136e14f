package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// process is a command that runs until it is stopped.
type process struct {
	t      *testing.T
	cancel context.CancelFunc
	status chan int
	lines  *bufio.Scanner
	log    *bytes.Buffer
	once   sync.Once
	read   chan struct{}
}

// launch starts a command; what it prints (or logs, when fromLog) is read by
// await.
func launch(t *testing.T, fromLog bool, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	p := &process{t: t, cancel: cancel, status: make(chan int, 1), lines: bufio.NewScanner(r), log: &bytes.Buffer{}, read: make(chan struct{})}
	term := terminal{in: strings.NewReader(""), out: w, err: &locked{w: p.log}}
	if fromLog {
		term.out, term.err = io.Discard, w
	}
	go func() {
		p.status <- run(ctx, args, term)
		_ = w.Close()
	}()
	t.Cleanup(func() {
		p.cancel()
		p.ended()
	})
	return p
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
	re := regexp.MustCompile(pattern)
	var seen []string
	for p.lines.Scan() {
		if m := re.FindStringSubmatch(p.lines.Text()); m != nil {
			return m
		}
		seen = append(seen, p.lines.Text())
	}
	p.t.Fatalf("ended without a line like %s:\n%s\n%s", pattern, strings.Join(seen, "\n"), p.log)
	return nil
}

// follow reads on in the background, so that the process never waits to print.
func (p *process) follow() {
	p.once.Do(func() {
		go func() {
			defer close(p.read)
			for p.lines.Scan() {
			}
		}()
	})
}

// ended waits until the process has printed its last.
func (p *process) ended() {
	p.follow()
	<-p.read
}

// stop ends the process and demands that it ends well.
func (p *process) stop() {
	p.t.Helper()
	p.cancel()
	p.ended()
	if s := <-p.status; s != exitDone {
		p.t.Fatalf("ended with status %d\n%s", s, p.log)
	}
}
