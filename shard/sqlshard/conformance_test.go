package sqlshard

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cellgate/internal/norace"
	"cellgate/internal/pgtest"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

func TestMain(m *testing.M) {
	norace.LeaveOut("TestConformance")
	goleak.VerifyTestMain(m, goleak.Cleanup(pgtest.Stop))
}

// TestConformance runs the suite on PostgreSQL at each isolation level. The store's locks must
// suffice at the weakest level, and must not conflict at the strongest.
func TestConformance(t *testing.T) {
	if !testlong.On() {
		norace.Skip(t, "storms, and one history on every store, run the same code with the race detector")
	}
	noRules := "CELLGATE_LONG=1 runs them; the embedded store has them, and random histories are the same on both"
	if testlong.On() {
		noRules = ""
	}
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(strings.ReplaceAll(isolation, " ", "-"), func(t *testing.T) {
			if isolation != "read committed" && os.Getenv("CELLGATE_LONG") == "" {
				shardtest.NotRun(t, "PostgreSQL, "+isolation, "CELLGATE_LONG=1 runs it")
			}
			srv := pgtest.Start(t)
			shardtest.Run(t, shardtest.Backend{Name: "PostgreSQL, " + isolation, NoRules: noRules, Open: func(t *testing.T) *shardtest.Instance {
				opts := testOptions(newDatabase(t))
				opts.Isolation = isolation
				return instance(t, opts, &testClock{}, func(t *testing.T) { srv.Crash(t) })
			}})
		})
	}
}

func TestConformanceOnCockroachDB(t *testing.T) {
	at := cockroachSite(t)
	// CockroachDB takes seconds to make a database, so the clauses share one and empty it.
	shared := at.database(t)
	shardtest.Run(t, shardtest.Backend{Name: at.name, Open: func(t *testing.T) *shardtest.Instance {
		t.Cleanup(func() { empty(t, shared) })
		return instance(t, at.options(shared), &testClock{}, nil)
	}})
}

// testOptions open the shard of a database that may be empty. IdleTimeout is long, since a test on
// a busy machine may stand still in a transaction.
func testOptions(url string) Options {
	return Options{Cell: "cell1", CellUUID: "c1", URL: url, Migrate: true, IdleTimeout: testwait.Limit}
}

// testClock is how far a test has moved the server's clock.
type testClock struct {
	mu   sync.Mutex
	skew time.Duration
}

func (c *testClock) read() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += d
}

func openAt(t testing.TB, opts Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), opts)
	if err != nil {
		t.Fatalf("opening the shard: %v", err)
	}
	return s
}

func instance(t *testing.T, opts Options, clock *testClock, crash func(*testing.T)) *shardtest.Instance {
	t.Helper()
	opts.skew = clock.read
	s := openAt(t, opts)
	i := &shardtest.Instance{
		Store:   s,
		Advance: clock.move,
		Rewind:  func(d time.Duration) { clock.move(-d) },
		Reopen: func(t *testing.T) *shardtest.Instance {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatalf("closing: %v", err)
			}
			return instance(t, opts, clock, crash)
		},
	}
	i.Damage = func(t *testing.T, u *shard.Usage) {
		t.Helper()
		exec(t, opts.URL, fmt.Sprintf("UPDATE host_usages SET generation = %d, pending = %d, confirmed = %d, used = '%s' WHERE host_uuid = '%s'",
			u.Generation, u.Pending, u.Confirmed, usedText(u.Used), u.HostUUID))
	}
	if crash != nil {
		i.Crash = func(t *testing.T) *shardtest.Instance {
			t.Helper()
			crash(t)
			return instance(t, opts, clock, crash)
		}
	}
	return i
}
