package pgproxy

import "net"

// hushed is a client's connection that passes nothing in either direction once silent is closed,
// without an error on either side.
type hushed struct {
	net.Conn
	silent  <-chan struct{}
	closing <-chan struct{}
}

func (h *hushed) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	select {
	case <-h.silent:
		// The server must not learn that the client has left, either.
		<-h.closing
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (h *hushed) Write(b []byte) (int, error) {
	select {
	case <-h.silent:
		return len(b), nil
	default:
		return h.Conn.Write(b)
	}
}
