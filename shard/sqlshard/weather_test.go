package sqlshard

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/pgproxy"
	"cellgate/internal/pgtest"
	"cellgate/internal/testlong"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// stormy is PostgreSQL behind the proxy, with faults, and with callers that retry.
func stormy(t *testing.T, seed uint64, p float64) shardtest.Backend {
	srv := pgtest.Start(t)
	var proxies []*pgproxy.Proxy
	return shardtest.Backend{
		Name: "PostgreSQL, faults on", Seeds: 1,
		Faults: func() map[string]int64 {
			sum := map[string]int64{}
			for _, p := range proxies {
				for name, n := range p.Counts() {
					sum[name] += n
				}
			}
			return sum
		},
		Open: func(t *testing.T) *shardtest.Instance {
			direct := newDatabase(t)
			proxy, url := proxied(t, srv, direct)
			proxies = append(proxies, proxy)
			// The faults depend on the test's name, so that it meets the same faults when it runs
			// alone.
			name := fnv.New64()
			_, _ = name.Write([]byte(t.Name())) // never fails
			proxy.SetPlan(pgproxy.Seeded(seed^name.Sum64(), pgproxy.Weather(p)...))
			return patient(t, testOptions(url), &testClock{}, func(t *testing.T) { srv.Crash(t) })
		},
	}
}

// patient is like instance, but its caller retries operations that were not done.
func patient(t *testing.T, opts Options, clock *testClock, crash func(*testing.T)) *shardtest.Instance {
	t.Helper()
	opts.skew = clock.read
	s, err := persistently(func() (*Store, error) { return Open(context.Background(), opts) })
	if err != nil {
		t.Fatalf("opening the shard: %v", err)
	}
	return &shardtest.Instance{
		Store:   &patience{s},
		Advance: clock.move,
		Rewind:  func(d time.Duration) { clock.move(-d) },
		Reopen: func(t *testing.T) *shardtest.Instance {
			t.Helper()
			mustClose(t, s)
			return patient(t, opts, clock, crash)
		},
		Crash: func(t *testing.T) *shardtest.Instance {
			t.Helper()
			crash(t)
			return patient(t, opts, clock, crash)
		},
	}
}

// patience retries when the store answers that nothing was done, as the store's users do. The store
// itself looks up unknown commits.
type patience struct{ *Store }

func again[T any](s *Store, call func() (T, error)) (v T, err error) {
	for range 20 {
		v, err = call()
		switch fault.KindOf(err) {
		case fault.CellUnavailable, fault.Contended, fault.Overloaded:
			if !s.isClosed() {
				continue
			}
		}
		break
	}
	return v, err
}

func (p *patience) Now(ctx context.Context) (time.Time, error) {
	return again(p.Store, func() (time.Time, error) { return p.Store.Now(ctx) })
}

func (p *patience) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	l, err := again(p.Store, func() (shard.Lane, error) { return p.Store.OpenLane(ctx, replica) })
	if err != nil {
		return nil, err
	}
	return &patientLane{l, p.Store}, nil
}

type patientLane struct {
	shard.Lane
	store *Store
}

func (l *patientLane) Apply(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
	return again(l.store, func() (shard.Applied, error) { return l.Lane.Apply(ctx, ops) })
}

// Load visits nothing before a load is complete, since an interrupted load starts again.
func (p *patience) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	var all []shard.Change
	at, err := again(p.Store, func() (shard.Cursor, error) {
		all = nil
		return p.Store.Load(ctx, func(c shard.Change) error { all = append(all, c); return nil })
	})
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if err := visit(c); err != nil {
			return nil, err
		}
	}
	return at, nil
}

func (p *patience) FindClaims(ctx context.Context, q shard.ClaimQuery) (shard.ClaimPage, error) {
	return again(p.Store, func() (shard.ClaimPage, error) { return p.Store.FindClaims(ctx, q) })
}

func (p *patience) Due(ctx context.Context, limit int) ([]shard.ClaimRef, error) {
	return again(p.Store, func() ([]shard.ClaimRef, error) { return p.Store.Due(ctx, limit) })
}

func (p *patience) Tail(ctx context.Context, from shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	var at shard.Cursor
	entries, err := again(p.Store, func() (e []shard.Entry, err error) { e, at, err = p.Store.Tail(ctx, from, limit); return e, err })
	return entries, at, err
}

func (p *patience) Trim(ctx context.Context, before time.Time) error {
	_, err := again(p.Store, func() (struct{}, error) { return struct{}{}, p.Store.Trim(ctx, before) })
	return err
}

func (p *patience) PutDecisions(ctx context.Context, ds []shard.Decision) error {
	_, err := again(p.Store, func() (struct{}, error) { return struct{}{}, p.Store.PutDecisions(ctx, ds) })
	return err
}

func (p *patience) FindDecisions(ctx context.Context, q shard.DecisionQuery) (shard.DecisionPage, error) {
	return again(p.Store, func() (shard.DecisionPage, error) { return p.Store.FindDecisions(ctx, q) })
}

func (p *patience) TrimDecisions(ctx context.Context, before time.Time, keep int) error {
	_, err := again(p.Store, func() (struct{}, error) { return struct{}{}, p.Store.TrimDecisions(ctx, before, keep) })
	return err
}

// TestConformanceInWeather runs the suite with faults on: each clause must hold as without faults.
func TestConformanceInWeather(t *testing.T) {
	if !testlong.On() && os.Getenv("CELLGATE_STORE_SUMMARY") == "" { // make test-store sets it
		shardtest.NotRun(t, "PostgreSQL, faults on", "make test-long runs it; make test has TestConformance, and storms in weather")
	}
	for _, seed := range seeds(t, 1, 5) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			repeatWith(t, seed)
			b := stormy(t, seed, 0.01)
			shardtest.Run(t, b)
			// With CELLGATE_SEED, a single clause may run, which meets few faults.
			if len(b.Faults()) < 8 && os.Getenv("CELLGATE_SEED") == "" {
				t.Errorf("hardly a fault: %v", b.Faults())
			}
		})
	}
}

// TestHistory_OtherServersAndFaults_DecidedOnAllRows runs histories on PostgreSQL at its strongest isolation, as
// CockroachDB, and with faults. The conformance suite runs them at its weakest, and on CockroachDB.
func TestHistory_OtherServersAndFaults_DecidedOnAllRows(t *testing.T) {
	srv := pgtest.Start(t)
	postgres := func(name string, change func(*Options)) shardtest.Backend {
		return shardtest.Backend{Name: "PostgreSQL, " + name, Open: func(t *testing.T) *shardtest.Instance {
			opts := testOptions(newDatabase(t))
			change(&opts)
			return instance(t, opts, &testClock{}, func(t *testing.T) { srv.Crash(t) })
		}}
	}
	for _, seed := range seeds(t, 1, 100) {
		for _, b := range []shardtest.Backend{
			postgres("serializable", func(o *Options) { o.Isolation = "serializable" }),
			postgres("as CockroachDB", func(o *Options) { o.as = new(cockroach) }),
			stormy(t, seed, 0.01),
		} {
			t.Run(fmt.Sprintf("%s/seed=%d", b.Name, seed), func(t *testing.T) {
				repeatWith(t, seed)
				shardtest.History(t, seed, b)
			})
		}
	}
}
