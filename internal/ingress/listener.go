package ingress

import (
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// unackedWithin is how long what was sent may stay without an acknowledgement before the
// kernel ends the connection. gRPC sets it itself, on a bare *net.TCPConn alone.
const unackedWithin = 10 * time.Second

// Listener closes connections above the limits at once. Those that are open stay; a unix
// socket's count in total only.
func (in *Ingress) Listener(l net.Listener) net.Listener { return limited{l, in} }

type limited struct {
	net.Listener
	in *Ingress
}

func (l limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from := addressOf(c); l.in.open(from) {
			boundUnacked(c)
			return &counted{Conn: c, done: sync.OnceFunc(func() { l.in.ended(from) })}, nil
		}
		_ = c.Close() // no answer: it would use the resource that ran out
	}
}

// boundUnacked sets TCP_USER_TIMEOUT. Where that fails keep-alive pings end a connection that
// is gone, a little later.
func boundUnacked(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unackedWithin.Milliseconds()))
		})
	}
}

// addressOf is what connections are counted by.
func addressOf(c net.Conn) string {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return ""
}

func (in *Ingress) open(from string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.connections >= in.limits.Connections:
		in.refused[BoundConnections]++
		return false
	case from != "" && in.addresses[from] >= in.limits.AddressConnections:
		in.refused[BoundAddress]++
		return false
	}
	in.connections++
	in.addresses[from]++
	return true
}

func (in *Ingress) ended(from string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.connections--
	countDown(in.addresses, from)
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	done func()
}

func (c *counted) Close() error {
	c.done()
	return c.Conn.Close()
}
