package sqlshard

import (
	"context"
	"errors"
	"sync"
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
	// server decides how transactions run, grammar which syntax it has. They differ in tests only.
	server, grammar server
	version         string
	pool            *pgxpool.Pool
	// direct makes connections that are not the pool's: these may take as long as they
	// need.
	direct *pgx.ConnConfig
	clock  clock
	hosts  rowCache[shard.Host]
	usages rowCache[shard.Usage]
	homes  homes
	count  Counters
	// own is the lane that was opened last; nil for none.
	own atomic.Pointer[shard.LaneID]
	// lanes are those that Tail met last; nil for none.
	lanes atomic.Pointer[[]shard.LaneID]
	// boundsIdle: the server takes idle_in_transaction_session_timeout.
	boundsIdle bool

	mu     sync.Mutex
	closed bool
	// swept is the consumer after which Trim goes on.
	swept string
	// ctx ends with the store: what waits for the database then stops waiting.
	ctx context.Context
	end context.CancelFunc
}

// Counters count what an operator cannot see from outside. They are of this
// process.
type Counters struct {
	races, lost, unknown, resolved, locked, slow, full, noRoom, refused atomic.Int64
}

// Counts is a reading of the counters.
type Counts struct {
	// Races are transactions that ran again because another was faster; Lost are
	// broken connections; Unknown are commits whose outcome was unknown, and
	// Resolved those of them that were looked up; Relocked are transactions that ran
	// again because they had to lock more than their operations name; Slow are statements
	// that the server ended because they took too long; PoolEmpty are calls that found all
	// connections in use and gave up; NoConnectionLeft are connections that the server had
	// no room for; Refused are connections and statements that it refused for a reason that
	// trying again does not help.
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

// Connections is how the pool is used.
type Connections struct {
	InUse, Idle, Opening, Max int
	// Waited is how long calls have waited for a connection because none was free.
	Waited time.Duration
}

// Connections reads how the pool is used.
func (s *Store) Connections() Connections {
	st := s.pool.Stat()
	return Connections{
		InUse: int(st.AcquiredConns()), Idle: int(st.IdleConns()), Opening: int(st.ConstructingConns()), Max: int(st.MaxConns()),
		Waited: st.EmptyAcquireWaitTime(),
	}
}

// Server is the version text of the database's server.
func (s *Store) Server() string { return s.version }

var _ shard.Store = (*Store)(nil)

// Now is the server's time, kept from going back.
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

// acquire gives a connection. Its caller releases it.
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

// read runs what only reads, each statement for itself.
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

// snapshot runs what reads as of one moment.
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

// rollback ends a transaction that changed nothing or must not. A connection that
// cannot is thrown away by the pool.
func (s *Store) rollback(c *pgx.Conn) error {
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.StatementTimeout)
	defer cancel()
	_, err := c.Exec(ctx, "ROLLBACK", pgx.QueryExecModeSimpleProtocol)
	return err
}

// bounded ends a context with the store.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends what is under way and closes the connections. A second Close does
// nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.end()
	s.pool.Close()
	return nil
}
