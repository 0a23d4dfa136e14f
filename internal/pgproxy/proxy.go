package pgproxy

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
)

// Proxy is a running proxy on a loopback port.
type Proxy struct {
	server   string
	listener net.Listener
	plan     atomic.Pointer[Plan]
	on       atomic.Bool
	serving  sync.WaitGroup
	closing  chan struct{}

	mu     sync.Mutex
	closed bool
	conns  int
	open   map[net.Conn]struct{}
	counts map[string]int64
	// reports are parameters that clients get in addition to the server's own.
	reports map[string]string
	// silent is closed when the present connections pass nothing on any more.
	silent chan struct{}
}

// New starts a proxy in front of a server, host:port, which need not run yet. The proxy is on and has
// no plan.
func New(server string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		server: server, listener: l, closing: make(chan struct{}),
		open: map[net.Conn]struct{}{}, counts: map[string]int64{}, reports: map[string]string{}, silent: make(chan struct{}),
	}
	p.on.Store(true)
	p.serving.Go(p.accept)
	return p, nil
}

// Addr is the address on which the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL converts a URL of the server to one through the proxy.
func (p *Proxy) URL(direct string) (string, error) {
	u, err := url.Parse(direct)
	if err != nil {
		return "", fmt.Errorf("not a URL of a database: %w", err)
	}
	u.Host = p.Addr()
	return u.String(), nil
}

// SetPlan replaces the plan; nil means no faults.
func (p *Proxy) SetPlan(plan Plan) {
	if plan == nil {
		p.plan.Store(nil)
		return
	}
	p.plan.Store(&plan)
}

// On turns the plan on or off. Statements are numbered either way.
func (p *Proxy) On(on bool) { p.on.Store(on) }

// Counts returns how many faults happened, by name.
func (p *Proxy) Counts() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Report adds a parameter of the server (a ParameterStatus) for clients that connect later.
func (p *Proxy) Report(name, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports[name] = value
}

// reported are the parameters set by Report, by name.
func (p *Proxy) reported() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.reports)
}

// CutAll ends all present connections, on both sides.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close() // its goroutines see it
	}
}

// SilenceAll keeps all present connections open on both sides but passes nothing on any more, like a
// firewall that has dropped their state. New connections pass.
func (p *Proxy) SilenceAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.silent)
	p.silent = make(chan struct{})
	p.counts["silent"]++
}

// silence is closed when SilenceAll silences the connections that are made now.
func (p *Proxy) silence() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent
}

// Close ends everything, and returns when all of it has ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	close(p.closing)
	err := p.listener.Close()
	p.CutAll()
	p.serving.Wait()
	return err
}

func (p *Proxy) fate(s Statement) Fault {
	if plan := p.plan.Load(); plan != nil && p.on.Load() {
		return (*plan)(s)
	}
	return Fault{}
}

func (p *Proxy) count(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[name]++
}

// track makes Close close a connection; it returns false if the proxy is already closed.
func (p *Proxy) track(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.open[c] = struct{}{}
	return true
}

// closeConn closes a connection.
func (p *Proxy) closeConn(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	_ = c.Close() // the connection's other goroutine may have closed it first
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue // the client went away again
		}
		p.mu.Lock()
		p.conns++
		n := p.conns
		p.mu.Unlock()
		if p.track(c) {
			p.serving.Go(func() { p.serve(c, n) })
		}
	}
}
