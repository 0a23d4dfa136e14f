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

// silenceMargin is how much longer than a statement may take an answer is waited for.
const silenceMargin = time.Second

// silence is what a connection fails with, and is closed, when an answer is waited for
// and nothing comes, or nothing is taken. statement_timeout is the server's: a machine
// that is gone, or a firewall that forgot the connection, keeps nobody's time, and TCP
// alone would wait for a quarter of an hour.
type silence struct{ after time.Duration }

func (s silence) Error() string {
	return fmt.Sprintf("the connection to the database was silent for %v", s.after)
}

// attentive makes connections that fail with silence after a time. One that nobody
// waits for may be silent as long as it likes.
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

// do is a Read or a Write with both deadlines.
func (c *attentiveConn) do(h *half, call func([]byte) (int, error), b []byte) (int, error) {
	if err := h.beginCall(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	n, err := call(b)
	if ours := h.endCall(); ours && errors.Is(err, os.ErrDeadlineExceeded) {
		// pgx goes on with a connection after a timeout; nothing will come of this one.
		_ = c.Close()
		return n, silence{c.limit}
	}
	return n, err
}

// half is one direction of a connection: two deadlines, of which the earlier counts.
type half struct {
	set func(time.Time) error

	mu sync.Mutex
	// asked is the deadline of who uses the connection, own that of the call under
	// way; zero for none.
	asked, own time.Time
}

func (h *half) apply() error {
	if h.ours() {
		return h.set(h.own)
	}
	return h.set(h.asked)
}

// ours reports whether the call's own deadline is the one that counts.
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
