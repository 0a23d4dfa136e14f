package sqlshard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Store is a shard.Store on CockroachDB or PostgreSQL.
type Store struct {
	opts Options
	// server decides how transactions run, grammar decides their syntax. They only differ in tests.
	server, grammar server
	version         string
	pool            *pgxpool.Pool
	// direct makes connections outside of the pool, which may take as long as they need.
	direct *pgx.ConnConfig
	clock  clock
	hosts  rowCache[shard.Host]
	usages rowCache[shard.Usage]
	homes  homes
	count  Counters
	// own is the lane that was opened last; nil for none.
	own atomic.Pointer[shard.LaneID]
	// lanes is what Tail saw last; nil for nothing.
	lanes atomic.Pointer[seenLanes]
	// boundsIdle: the server accepts idle_in_transaction_session_timeout.
	boundsIdle bool

	// ctx ends with the store, and with it all waits for the database.
	ctx context.Context
	end context.CancelFunc
}

// Counters count events that operators cannot see from outside, for this process.
type Counters struct {
	races, lost, unknown, resolved, locked, slow, full, noRoom, refused atomic.Int64
}

// Counts are the values of the counters.
type Counts struct {
	// Races are transactions that ran again because another was faster. Lost are broken connections. Unknown are
	// commits with an unknown outcome, and Resolved those that were looked up. Relocked are transactions that ran
	// again because they had to lock more than their operations name. Slow are statements that the server ended
	// because they took too long. PoolEmpty are calls that gave up because all connections were in use.
	// NoConnectionLeft are connections that the server had no room for. Refused are connections and statements that
	// the server refused for a reason that a retry does not change.
	Races, Lost, Unknown, Resolved, Relocked, Slow, PoolEmpty, NoConnectionLeft, Refused int64
}

// Counts reads the counters.
func (s *Store) Counts() Counts {
	c := &s.count
	return Counts{
		Races: c.races.Load(), Lost: c.lost.Load(), Unknown: c.unknown.Load(), Resolved: c.resolved.Load(), Relocked: c.locked.Load(),
		Slow: c.slow.Load(), PoolEmpty: c.full.Load(), NoConnectionLeft: c.noRoom.Load(), Refused: c.refused.Load(),
	}
}

// Pool reads the state of the pool.
func (s *Store) Pool() *pgxpool.Stat { return s.pool.Stat() }

// Server is the version text of the database's server.
func (s *Store) Server() string { return s.version }

var _ shard.Store = (*Store)(nil)

// Now is the server's time, but never goes back.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error {
		var server time.Time
		if err := c.QueryRow(ctx, serverTime).Scan(&server); err != nil {
			return err
		}
		var err error
		now, err = s.clock.read(ctx, s, c.Conn(), server)
		return err
	})
	return now, err
}

// acquire gives a connection, which the caller must release.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if s.isClosed() {
		return nil, fault.New(fault.CellUnavailable, "the shard of cell %s is closed", s.opts.Cell)
	}
	wait, cancel := context.WithTimeout(ctx, s.opts.AcquireTimeout)
	defer cancel()
	c, err := s.pool.Acquire(wait)
	if err == nil {
		return c, nil
	}
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) && s.pool.Stat().AcquiredConns() >= s.pool.Config().MaxConns {
		return nil, s.poolEmpty(err)
	}
	return nil, err
}

// read runs statements that only read, each in its own transaction.
func (s *Store) read(ctx context.Context, do func(ctx context.Context, c *pgxpool.Conn) error) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.typed(ctx, s.retry(ctx, func(ctx context.Context) error {
		c, err := s.acquire(ctx)
		if err != nil {
			return err
		}
		defer c.Release()
		return do(ctx, c)
	}))
}

// snapshot runs statements that read as of one moment.
func (s *Store) snapshot(ctx context.Context, do func(ctx context.Context, c *pgx.Conn) error) error {
	return s.read(ctx, func(ctx context.Context, c *pgxpool.Conn) error { return s.asOf(ctx, c.Conn(), do) })
}

func (s *Store) asOf(ctx context.Context, c *pgx.Conn, do func(ctx context.Context, c *pgx.Conn) error) error {
	if _, err := c.Exec(ctx, s.server.beginSnapshot()); err != nil {
		return err
	}
	err := do(ctx, c)
	return errors.Join(err, s.rollback(c))
}

// rollback ends a transaction that changed nothing, or must not. If it fails, the pool discards the connection.
func (s *Store) rollback(c *pgx.Conn) error {
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.StatementTimeout)
	defer cancel()
	_, err := c.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	return err
}

// bounded gives a context that also ends with the store.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *Store) isClosed() bool { return s.ctx.Err() != nil }

// Close cancels running calls and closes the connections. A second Close does nothing.
func (s *Store) Close() error {
	s.end()
	s.pool.Close()
	return nil
}
