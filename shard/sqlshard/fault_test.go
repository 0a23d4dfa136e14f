package sqlshard

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"cellgate/internal/fault"
	"cellgate/internal/pgtest"
	"cellgate/internal/testwait"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// stand is a store with a lane and a host.
type stand struct {
	*testing.T
	*Store
	lane shard.Lane
}

// pooled acquires a connection of the pool without a timeout. The caller releases it.
func pooled(t *testing.T, s *Store) *pgxpool.Conn {
	t.Helper()
	c, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newStand(t *testing.T, opts Options) *stand {
	t.Helper()
	s := &stand{T: t, Store: openAt(t, opts)}
	t.Cleanup(func() { mustClose(t, s.Store) })
	var err error
	if s.lane, err = s.OpenLane(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	if err := s.apply(shard.Op{PutHost: shardtest.NewHost(1, 1000)}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) apply(ops ...shard.Op) error {
	a, err := s.lane.Apply(s.T.Context(), ops)
	for _, o := range a.Outcomes {
		if o.Refusal != nil {
			s.T.Errorf("refused: %+v", o.Refusal)
		}
	}
	return err
}

func (s *stand) claim(n int) error { return s.apply(shard.Op{Claim: shardtest.NewClaim(n, 1, 1)}) }

// live counts the live claims. It fails unless rows, journal and usage agree.
func (s *stand) live() int {
	s.T.Helper()
	rows, _, err := shardtest.LoadRows(s.T.Context(), s.Store)
	if err != nil {
		s.T.Fatal(err)
	}
	replayed, _, err := shardtest.Replay(s.T.Context(), s.Store, nil)
	if err != nil {
		s.T.Fatal(err)
	}
	for _, d := range append(rows.Diff(replayed), rows.Check()...) {
		s.T.Error(d)
	}
	return len(rows.Claims)
}

// A newer incarnation of a replica fences the older one, whose transactions are refused.
func TestOpenLane_NewerIncarnation_FencesTheOlder(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		old := newStand(t, opts)
		young := newStand(t, opts)
		if err := old.claim(1); fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("Apply of the older incarnation: %v", err)
		}
		if err := young.claim(2); err != nil {
			t.Errorf("Apply of the newer incarnation: %v", err)
		}
		if n := young.live(); n != 1 {
			t.Errorf("%d claims are live", n)
		}
	})
}

// A lane ends if the journal lacks its last entry, or it has no row, as in a database that was restored to an earlier
// state.
func TestALaneThatIsNotWhereItWasStops(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		s := newStand(t, at.options(at.database(t)))
		exec(t, s.opts.URL, "DELETE FROM journal")
		if s.server == cockroach {
			s.lane.(*lane).entries.lastAt = time.Now().Add(-settleTime)
		}
		lost := s.claim(1)
		exec(t, s.opts.URL, "DELETE FROM lanes")
		for _, err := range []error{lost, s.claim(1)} {
			if fault.KindOf(err) != fault.Internal || !errors.Is(err, shard.ErrBroken) {
				t.Errorf("Apply: %v, want %v", err, shard.ErrBroken)
			}
		}
	})
}

// In a database that was restored to an earlier state, other rows get generations that a replica has seen. It forgets
// the rows when it loads the shard again, which the journal demands.
func TestLoad_AfterARestore_ForgetsRows(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		newStand(t, opts) // its host has 1000 VCPU
		s := openAt(t, opts)
		defer mustClose(t, s)
		l, err := s.OpenLane(t.Context(), "idle")
		if err != nil {
			t.Fatal(err)
		}
		_, cursor, err := shardtest.LoadRows(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, opts.URL, "DELETE FROM hosts", "DELETE FROM host_usages", "DELETE FROM journal")
		other := openAt(t, opts)
		defer mustClose(t, other)
		again, err := other.OpenLane(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.Apply(t.Context(), []shard.Op{{PutHost: shardtest.NewHost(1, 1)}}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Tail(t.Context(), cursor, 10); fault.KindOf(err) != fault.Gone {
			t.Fatalf("Tail: %v, want %s", err, fault.Gone)
		}
		if _, _, err := shardtest.LoadRows(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		a, err := l.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(1, 1, 2)}})
		if err != nil || a.Outcomes[0].Refusal == nil {
			t.Errorf("a claim of 2 VCPU on a host that has 1: %+v, %v", a.Outcomes, err)
		}
	})
}

// If no connection is free within AcquireTimeout, the call is OVERLOADED.
func TestAnEmptyPoolIsOverload(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		opts.MaxConns, opts.AcquireTimeout = 2, 2*time.Second
		s := newStand(t, opts)
		// Open both connections before a third is asked for.
		for end := time.Now().Add(testwait.Limit); s.Pool().IdleConns() < 2; {
			_, err := s.Load(t.Context(), func(shard.Change) error {
				_, err := s.Now(t.Context())
				return err
			})
			if err != nil && time.Now().After(end) {
				t.Fatal(err)
			}
		}
		before := s.Counts().PoolEmpty
		_, err := s.Load(t.Context(), func(shard.Change) error {
			_, err := s.Load(t.Context(), func(shard.Change) error {
				_, err := s.Now(t.Context())
				return err
			})
			return err
		})
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Overloaded || f.RetryAfter == 0 {
			t.Errorf("a third connection of two: %v", err)
		}
		if n, pool := s.Counts().PoolEmpty-before, s.Pool(); n != 1 || pool.MaxConns() != 2 || pool.AcquiredConns() != 0 || pool.IdleConns() != 2 {
			t.Errorf("it is counted %d times, and the pool is %+v", n, pool)
		}
		if _, err := s.Now(t.Context()); err != nil {
			t.Errorf("with free connections: %v", err)
		}
	})
}

// A transaction that waits for a row longer than StatementTimeout is CONTENDED: nothing is written,
// and the cell does not count as unavailable.
func TestASlowStatementEnds(t *testing.T) {
	onServers(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		opts.StatementTimeout = 2 * time.Second // on a busy machine the other statements need this long
		s := newStand(t, opts)
		c, err := pgx.Connect(t.Context(), opts.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(context.Background()) }()
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT * FROM host_usages FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		err = s.claim(1)
		if fault.KindOf(err) != fault.Contended || !strings.Contains(err.Error(), "more than 2s") {
			t.Errorf("Apply: %v", err)
		}
		if n := s.Counts().Slow; n != 1 {
			t.Errorf("%d statements took too long", n)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.claim(2); err != nil {
			t.Errorf("Apply afterwards: %v", err)
		}
		if n := s.live(); n != 1 {
			t.Errorf("%d claims are live", n)
		}
	})
}

// The store connects again to a server that was restarted or killed. Without a server, calls fail
// at once. Nothing is lost.
func TestServersThatGoAndComeBack(t *testing.T) {
	srv := pgtest.New(t, pgtest.Options{})
	opts := testOptions(srv.NewDatabase(t))
	s := newStand(t, opts)
	for i, again := range []func(testing.TB){srv.Restart, srv.Crash} {
		again(t)
		if err := s.claim(i); err != nil {
			t.Errorf("Apply after restart %d: %v", i, err)
		}
	}
	srv.Kill(t)
	for what, err := range map[string]error{
		"Apply": s.claim(10),
		"Now":   func() error { _, err := s.Now(t.Context()); return err }(),
	} {
		if fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("%s without a server: %v", what, err)
		}
	}
	srv.Run(t)
	if err := s.claim(11); err != nil {
		t.Errorf("Apply with the server: %v", err)
	}
	if n := s.live(); n != 3 {
		t.Errorf("%d claims are live, want 3", n)
	}
}

// cutter makes connections that can be cut at a write.
type cutter struct {
	net.Dialer
	mu sync.Mutex
	// at counts the writes until the next cut; 0: there is none. With deliver, the server gets the
	// write, and only its answer is lost.
	at      int
	deliver bool
	cuts    atomic.Int64
}

func (c *cutter) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, cutter: c}, nil
}

// arm sets the next cut: at which write (0: never), and whether the server gets that write.
func (c *cutter) arm(at int, deliver bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.deliver = at, deliver
}

type cutConn struct {
	net.Conn
	cutter *cutter
	deaf   atomic.Bool
}

func (c *cutConn) Write(b []byte) (int, error) {
	c.cutter.mu.Lock()
	defer c.cutter.mu.Unlock()
	if c.cutter.at == 0 {
		return c.Conn.Write(b)
	}
	if c.cutter.at--; c.cutter.at > 0 {
		return c.Conn.Write(b)
	}
	c.cutter.cuts.Add(1)
	if c.cutter.deliver {
		c.deaf.Store(true)
		return c.Conn.Write(b)
	}
	return len(b), c.Close()
}

// Read waits for the answer before it cuts the connection, so that the server has done the write.
// It drops the answer.
func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.deaf.Load() {
		_ = c.Close()
		return 0, errors.New("a fault of the test: cut")
	}
	return n, err
}

// The store looks up a commit whose outcome is unknown. Whether or not it was done, the caller gets
// the answer, and the claim is there once.
func TestUnknownCommitsAreLookedUp(t *testing.T) {
	for _, deliver := range []bool{true, false} {
		c := &cutter{deliver: deliver}
		opts := testOptions(newDatabase(t))
		opts.dial = c.dial
		s := newStand(t, opts)
		for n := range 3 {
			// Prepare the statements first: then each trip is one write.
			if err := s.claim(n); err != nil {
				t.Fatal(err)
			}
		}
		c.arm(2, deliver)
		if err := s.claim(3); err != nil {
			t.Errorf("delivered %v: Apply: %v", deliver, err)
		}
		if got := s.Counts(); c.cuts.Load() != 1 || got.Unknown != 1 || got.Resolved != 1 {
			t.Errorf("delivered %v: cut %d times, counted %+v", deliver, c.cuts.Load(), got)
		}
		if err := s.claim(4); err != nil {
			t.Errorf("delivered %v: Apply afterwards: %v", deliver, err)
		}
		if n := s.live(); n != 5 {
			t.Errorf("delivered %v: %d claims are live, want 5", deliver, n)
		}
	}
}

// If a batch cannot be encoded, its COMMIT was not sent, so the outcome is known.
func TestCommit_UnencodableArgument_IsNotUnknown(t *testing.T) {
	s := newStand(t, testOptions(newDatabase(t)))
	c := pooled(t, s.Store)
	defer c.Release()
	if _, err := c.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	w := &writes{store: s.Store}
	w.queue(reserveTime, int64(1)<<62)
	w.queue("SELECT $1::int8", "no number")
	if unknown, err := w.commit(t.Context(), c.Conn()); unknown || fault.KindOf(err) != fault.Internal {
		t.Errorf("commit: unknown %v, %v, want an error of kind %s", unknown, err, fault.Internal)
	}
	if err := s.rollback(c.Conn()); err != nil {
		t.Fatal(err)
	}
	var reserved int64
	if err := c.QueryRow(t.Context(), reservedTime).Scan(&reserved); err != nil || reserved == 1<<62 {
		t.Errorf("the batch was committed: %d, %v", reserved, err)
	}
}

// If the server is gone, a commit cannot be looked up, and its outcome is unknown. The lane looks
// it up before its next transaction.
func TestAnUnknownCommitIsLookedUpBeforeTheLaneGoesOn(t *testing.T) {
	srv := pgtest.New(t, pgtest.Options{})
	c := &cutter{deliver: true}
	opts := testOptions(srv.NewDatabase(t))
	opts.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if c.cuts.Load() == 1 {
			return nil, errors.New("a fault of the test: no way to the server")
		}
		return c.dial(ctx, network, addr)
	}
	s := newStand(t, opts)
	for n := range 3 {
		if err := s.claim(n); err != nil {
			t.Fatal(err)
		}
	}
	c.arm(2, true)
	if err := s.claim(3); fault.KindOf(err) != fault.OutcomeUnknown || strings.Count(err.Error(), "did not say whether it committed") != 1 {
		t.Fatalf("Apply: %v, want %s", err, fault.OutcomeUnknown)
	}
	if err := s.claim(4); fault.KindOf(err) != fault.CellUnavailable {
		t.Fatalf("Apply before it is known: %v, want %s", err, fault.CellUnavailable)
	}
	c.cuts.Store(2)
	if err := s.claim(5); err != nil {
		t.Errorf("Apply afterwards: %v", err)
	}
	if n := s.live(); n != 5 {
		t.Errorf("%d claims are live, want 5: the unknown one was done", n)
	}
}

// The entry of an unknown commit was trimmed before the lane looks it up: the commit counts as done, and its number is
// not used again.
func TestUnknownCommit_EntryTrimmedMeanwhile_WasDone(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		clock := &testClock{}
		opts := at.options(at.database(t))
		opts.skew = clock.read
		s := newStand(t, opts)
		if err := s.claim(1); err != nil {
			t.Fatal(err)
		}
		l := s.lane.(*lane)
		l.entries, l.doubt = written{last: 1}, 2
		clock.move(time.Hour)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Trim(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if err := s.claim(2); err != nil || l.entries.last != 3 {
			t.Errorf("the next entry is %d, want 3; %v", l.entries.last, err)
		}
	})
}

// A trim drops the consumer rows of group members without claims, and keeps the row of a consumer
// with a claim. CockroachDB has no consumer rows.
func TestConsumersWithoutClaimsAreDropped(t *testing.T) {
	s := newStand(t, testOptions(newDatabase(t)))
	c := shardtest.NewClaim(1, 1, 1)
	c.Group = &shard.Group{UUID: shardtest.GroupID(1), Policy: "affinity", Members: []string{shardtest.ConsumerID(1), shardtest.ConsumerID(2)}}
	if err := s.apply(shard.Op{Claim: c}); err != nil {
		t.Fatal(err)
	}
	there := func() string {
		c := pooled(t, s.Store)
		defer c.Release()
		list, err := texts(t.Context(), c.Conn(), nextConsumers, "")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(list, " ")
	}
	if got, want := there(), shardtest.ConsumerID(1)+" "+shardtest.ConsumerID(2); got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
	if err := s.Trim(t.Context(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if got := there(); got != shardtest.ConsumerID(1) {
		t.Errorf("after a trim there are %s", got)
	}
}
