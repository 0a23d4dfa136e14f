package sqlshard

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// idleRefused: this process has logged that a server refuses the limit. A process opens one store for each cell, and
// logs it only once.
var idleRefused atomic.Bool

// tryIdleLimit reports whether the server ends connections that are idle in a transaction. A server without the
// setting keeps the locks of an idle process; this is logged once for each process.
func (s *Store) tryIdleLimit(ctx context.Context, c *pgx.Conn) (bool, error) {
	_, err := c.Exec(ctx, idleLimit(s.opts.IdleTimeout), pgx.QueryExecModeSimpleProtocol)
	if err == nil || !s.server.mayRefuseIdle() || !settingRefused(err) {
		return err == nil, err
	}
	if idleRefused.Swap(true) {
		return false, nil
	}
	s.opts.Log.Warn("the database keeps the locks of a process that stands still in a transaction: it refuses idle_in_transaction_session_timeout", "err", err)
	return false, nil
}

// snapshotWithoutIdleLimit is for callers that may pause between statements, as the visitor of a Load does. If the
// limit cannot be restored, the connection is closed.
func (s *Store) snapshotWithoutIdleLimit(ctx context.Context, do func(ctx context.Context, c *pgx.Conn) error) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		if !s.boundsIdle {
			return s.asOf(ctx, c.Conn(), do)
		}
		// Outside of the transaction: CockroachDB of the 20.2 line has no SET LOCAL.
		if _, err := c.Exec(ctx, idleLimit(0), pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
		err := s.asOf(ctx, c.Conn(), do)
		ctx, cancel := context.WithTimeout(context.Background(), s.opts.StatementTimeout)
		defer cancel()
		if c.Conn().IsClosed() {
			return err
		}
		if _, serr := c.Exec(ctx, idleLimit(s.opts.IdleTimeout), pgx.QueryExecModeSimpleProtocol); serr != nil {
			_ = c.Conn().Close(ctx) // the pool makes another one
		}
		return err
	})
}
