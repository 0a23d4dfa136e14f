package ingress

import (
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// unackedWithin is how long sent bytes may stay unacknowledged before the kernel ends the connection.
// gRPC itself sets this only on a bare *net.TCPConn.
const unackedWithin = 10 * time.Second

// Listener closes new connections above the limits at once, and keeps open ones. Connections of a unix
// socket count only in the total.
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
		if done, ok := l.in.begin(&l.in.connections, addressOf(c)); ok {
			boundUnacked(c)
			return &counted{Conn: c, done: sync.OnceFunc(done)}, nil
		}
		_ = c.Close() // no answer: it would use the resource that ran out
	}
}

// boundUnacked sets TCP_USER_TIMEOUT. If that fails, keep-alive pings end a dead connection a little
// later.
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

// addressOf is the key by which connections are counted.
func addressOf(c net.Conn) string {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return ""
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
