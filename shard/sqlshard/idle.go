package sqlshard

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tryIdleLimit reports whether the server ends connections that are idle in a transaction. A CockroachDB without the
// setting keeps the locks of an idle process, and the log says so.
func (s *Store) tryIdleLimit(ctx context.Context, c *pgx.Conn) (bool, error) {
	_, err := c.Exec(ctx, idleLimit(s.opts.IdleTimeout), pgx.QueryExecModeSimpleProtocol)
	if err == nil || s.server != cockroach || !settingRefused(err) {
		return err == nil, err
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
