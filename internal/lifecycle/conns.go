package lifecycle

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// newFor is how long to wait for a connection on which nothing was sent yet.
const newFor = time.Second

// conns follows the states of a server's connections. http.Server.Shutdown alone drops a request that
// it has read and not begun to answer, so it is called only when there is none.
type conns struct {
	mu     sync.Mutex
	states map[net.Conn]http.ConnState
	// changed has one element when a state has changed.
	changed chan struct{}
}

func newConns() *conns {
	return &conns{states: map[net.Conn]http.ConnState{}, changed: make(chan struct{}, 1)}
}

// saw is a http.Server's ConnState.
func (c *conns) saw(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == http.StateClosed || s == http.StateHijacked {
		delete(c.states, conn)
	} else {
		c.states[conn] = s
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *conns) count(s http.ConnState) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.states {
		if state == s {
			n++
		}
	}
	return n
}

// settle waits until no connection has a request, and none is so new that a request may be on its way;
// at most until ctx ends.
func (c *conns) settle(ctx context.Context) {
	fresh := time.NewTimer(newFor)
	defer fresh.Stop()
	late := false
	for c.count(http.StateActive) > 0 || !late && c.count(http.StateNew) > 0 {
		select {
		case <-c.changed:
		case <-fresh.C:
			late = true
		case <-ctx.Done():
			return
		}
	}
}
