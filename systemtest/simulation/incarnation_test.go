package simulation

import (
	"context"
	"sync"
	"time"
)

// incarnation is one run of a part, from its start to its death.
type incarnation struct {
	dead chan struct{}
	once sync.Once
}

func newIncarnation() *incarnation { return &incarnation{dead: make(chan struct{})} }

// die ends the run: nothing that it sends arrives any more.
func (l *incarnation) die() { l.once.Do(func() { close(l.dead) }) }

func (l *incarnation) over() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// gate is closed while a part is paused.
type gate struct {
	mu   sync.Mutex
	held chan struct{}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held == nil {
		g.held = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.held != nil {
		close(g.held)
		g.held = nil
	}
}

// pass waits until the gate is open, the run is over, or ctx ends.
func (g *gate) pass(ctx context.Context, l *incarnation) error {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-l.dead:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// clock is the clock of a part. It can jump.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}
