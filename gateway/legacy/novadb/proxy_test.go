package novadb

import (
	"net"
	"sync"
	"testing"
)

// proxy passes bytes between clients and a server, and cuts connections after so
// many bytes of the server's. It knows no protocol.
type proxy struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu sync.Mutex
	// left is how many bytes of the server may still pass, over all connections; -1 for
	// any number.
	left  int
	open  map[net.Conn]bool
	cuts  int
	ended bool
}

// newProxy starts a proxy in front of a server's address; the test stops it.
func newProxy(t testing.TB, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, left: -1, open: map[net.Conn]bool{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("the proxy: %v", err)
		}
		p.mu.Lock()
		p.ended = true
		for c := range p.open {
			_ = c.Close() // it may have ended by itself
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

// address is where the proxy listens.
func (p *proxy) address() string { return p.listener.Addr().String() }

// cutAfter ends every connection once the server has sent so many more bytes, and later connections at once. A
// negative number lets all bytes pass.
func (p *proxy) cutAfter(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.cuts = bytes, 0
}

// countCuts is how many connections were cut since cutAfter.
func (p *proxy) countCuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close() // as the server does
			continue
		}
		if !p.keep(client, server) {
			return
		}
		p.wg.Go(func() { p.pass(client, server, false) })
		p.wg.Go(func() { p.pass(server, client, true) })
	}
}

// keep records the ends of a connection. It returns false if the proxy has ended.
func (p *proxy) keep(ends ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range ends {
		if p.ended {
			_ = c.Close() // nobody has it
		} else {
			p.open[c] = true
		}
	}
	return !p.ended
}

// pass copies until one end closes or the bytes are used up, and closes both.
func (p *proxy) pass(from, to net.Conn, counted bool) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range []net.Conn{from, to} {
			delete(p.open, c)
			_ = c.Close() // the other direction may have
		}
	}()
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		allowed := n
		if counted {
			allowed = p.allow(n)
		}
		if _, werr := to.Write(b[:allowed]); err != nil || werr != nil || allowed < n {
			return
		}
	}
}

// allow gives how many of n bytes may pass.
func (p *proxy) allow(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 {
		return n
	}
	allowed := min(n, p.left)
	p.left -= allowed
	if allowed < n {
		p.cuts++
	}
	return allowed
}
