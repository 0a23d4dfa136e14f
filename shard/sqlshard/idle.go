package sqlshard

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// patiently is snapshot for what may stand still between its statements, as the
// visitor of a load does. A connection that cannot be made impatient again is closed.
func (s *Store) patiently(ctx context.Context, do func(ctx context.Context, c *pgx.Conn) error) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
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
