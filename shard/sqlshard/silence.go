package sqlshard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// silenceMargin is added to the statement timeout to get the limit of silence.
const silenceMargin = time.Second

// silence is the error of a connection, which is then closed, if an answer is expected and no bytes come, or no bytes
// can be sent. statement_timeout is measured by the server. It does not help if the server's machine is gone, or a
// firewall forgot the connection; TCP alone would wait for a quarter of an hour.
type silence struct{ after time.Duration }

func (s silence) Error() string {
	return fmt.Sprintf("the connection to the database was silent for %v", s.after)
}

// attentive makes connections that fail with silence after a limit. While no call waits, a connection may be silent.
func attentive(dial pgconn.DialFunc, limit time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &attentiveConn{
			Conn: c, limit: limit,
			in: half{set: c.SetReadDeadline}, out: half{set: c.SetWriteDeadline},
		}, nil
	}
}

type attentiveConn struct {
	net.Conn
	limit   time.Duration
	in, out half
}

func (c *attentiveConn) Read(b []byte) (int, error) { return c.do(&c.in, c.Conn.Read, b) }

func (c *attentiveConn) Write(b []byte) (int, error) { return c.do(&c.out, c.Conn.Write, b) }

func (c *attentiveConn) SetReadDeadline(t time.Time) error { return c.in.ask(t) }

func (c *attentiveConn) SetWriteDeadline(t time.Time) error { return c.out.ask(t) }

func (c *attentiveConn) SetDeadline(t time.Time) error {
	return errors.Join(c.in.ask(t), c.out.ask(t))
}

// do performs a Read or a Write with both deadlines.
func (c *attentiveConn) do(h *half, call func([]byte) (int, error), b []byte) (int, error) {
	if err := h.beginCall(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := call(b)
	if ours := h.endCall(); ours && errors.Is(err, os.ErrDeadlineExceeded) {
		// pgx goes on with a connection after a timeout, but this one is of no use any more.
		_ = c.Close()
		return n, silence{c.limit}
	}
	return n, err
}

// half is one direction of a connection. It has two deadlines; the earlier counts.
type half struct {
	set func(time.Time) error

	mu sync.Mutex
	// asked is the deadline set by the user of the connection, own is the running call's; zero for none.
	asked, own time.Time
}

func (h *half) apply() error {
	if h.ours() {
		return h.set(h.own)
	}
	return h.set(h.asked)
}

// ours reports whether the call's own deadline counts.
func (h *half) ours() bool {
	return !h.own.IsZero() && (h.asked.IsZero() || h.own.Before(h.asked))
}

func (h *half) ask(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = t
	return h.apply()
}

func (h *half) beginCall(own time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own = own
	return h.apply()
}

func (h *half) endCall() (ours bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ours, h.own = h.ours(), time.Time{}
	return ours
}
