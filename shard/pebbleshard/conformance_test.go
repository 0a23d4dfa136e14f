package pebbleshard

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
	"cellgate/shard/shardtest"
)

func TestMain(m *testing.M) {
	norace.LeaveOut("TestConformanceOnDisk", "TestOpen_AfterAPowerCutAtAnyWrite_HasAllAcknowledged", "TestTrim_ADayOfClaimsEnding_TheShardLevelsOff", "TestOpen_OneByteInverted_HasAllClaimsOrIsRefused", "TestOpen_AFileCutShort_HasAllClaimsOrIsRefused")
	goleak.VerifyTestMain(m)
}

// manyOpens is why the race detector leaves out tests that open a store hundreds of times.
const manyOpens = "it opens a store hundreds of times, and the conformance suite has every concurrent path"

func TestConformanceInMemory(t *testing.T) {
	shardtest.Run(t, shardtest.Backend{Name: "pebble in memory", Open: func(t *testing.T) *shardtest.Instance {
		return instance(t, vfs.NewCrashableMem(), "/shard", newTestClock())
	}})
}

func TestConformanceOnDisk(t *testing.T) {
	norace.Skip(t, "TestConformanceInMemory runs the same code with the race detector")
	noRules := "CELLGATE_LONG=1 runs them; the store in memory has them"
	if testlong.On() {
		noRules = ""
	}
	shardtest.Run(t, shardtest.Backend{Name: "pebble on disk", NoRules: noRules, Open: func(t *testing.T) *shardtest.Instance {
		return instance(t, vfs.Default, t.TempDir(), newTestClock())
	}})
}

// testClock is a machine's clock that tests set.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock() *testClock {
	return &testClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (c *testClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var testOptions = Options{Cell: "cell1", CellUUID: "c1"}

func openAt(t testing.TB, fs vfs.FS, dir string, clock *testClock) *Store {
	t.Helper()
	opts := testOptions
	opts.Clock = clock.read
	s, err := open(fs, dir, opts)
	if err != nil {
		t.Fatalf("opening %s: %v", dir, err)
	}
	return s
}

func instance(t *testing.T, fs vfs.FS, dir string, clock *testClock) *shardtest.Instance {
	t.Helper()
	s := openAt(t, fs, dir, clock)
	i := &shardtest.Instance{
		Store:   s,
		Advance: clock.move,
		Rewind:  func(d time.Duration) { clock.move(-d) },
		Reopen: func(t *testing.T) *shardtest.Instance {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatalf("closing: %v", err)
			}
			return instance(t, fs, dir, clock)
		},
	}
	i.Damage = func(t *testing.T, u *shard.Usage) {
		t.Helper()
		_, _, row, err := rowcodec.Row(nil, shard.Change{Usage: u})
		if err != nil {
			t.Fatal(err)
		}
		b := s.db.NewBatch()
		if err := b.Set(nameKey(usageKey, u.HostUUID), row, nil); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		c, err := s.commit(b)
		s.rows.usages[u.HostUUID] = u
		s.mu.Unlock()
		if err := errors.Join(err, s.durable(t.Context(), c)); err != nil {
			t.Fatal(err)
		}
	}
	if mem, ok := fs.(*vfs.MemFS); ok {
		i.Crash = func(t *testing.T) *shardtest.Instance {
			t.Helper()
			rng := rand.New(rand.NewPCG(1, 2))
			left := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			return instance(t, left, dir, clock)
		}
	}
	return i
}

func mustClose(t testing.TB, s shard.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}
