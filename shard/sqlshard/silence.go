package sqlshard

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
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
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &attentiveConn{Conn: conn, limit: limit}
		c.reading, c.writing = time.AfterFunc(limit, c.giveUp), time.AfterFunc(limit, c.giveUp)
		c.reading.Stop()
		c.writing.Stop()
		return c, nil
	}
}

type attentiveConn struct {
	net.Conn
	limit time.Duration
	// reading and writing run during a call.
	reading, writing *time.Timer
	givenUp          atomic.Bool
}

// giveUp closes the connection, so that the waiting call fails.
func (c *attentiveConn) giveUp() {
	c.givenUp.Store(true)
	_ = c.Close()
}

func (c *attentiveConn) Read(b []byte) (int, error) {
	c.reading.Reset(c.limit)
	defer c.reading.Stop()
	n, err := c.Conn.Read(b)
	return n, c.cause(err)
}

func (c *attentiveConn) Write(b []byte) (int, error) {
	c.writing.Reset(c.limit)
	defer c.writing.Stop()
	n, err := c.Conn.Write(b)
	return n, c.cause(err)
}

func (c *attentiveConn) cause(err error) error {
	if err != nil && c.givenUp.Load() {
		return silence{c.limit}
	}
	return err
}
