package pebbleshard

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cellgate/internal/testlong"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
	"cellgate/shard/shardtest"
)

// TestI3_CrashAtAnyPoint cuts the power at random points while lanes write, and opens the files
// that are left. Everything acknowledged is there, the journal has no gap, and the rows match the
// journal and the indexes.
func TestI3_CrashAtAnyPoint(t *testing.T) {
	seeds, crashes := uint64(2), 6
	if testlong.On() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { crashing(t, seed, crashes) })
	}
}

// acknowledged are the entries that lanes reported as durable.
type acknowledged struct {
	mu      sync.Mutex
	entries map[shard.LaneID][]shard.Entry
}

func (a *acknowledged) add(e shard.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entries[e.Lane] = append(a.entries[e.Lane], e)
}

func (a *acknowledged) now() map[shard.LaneID][]shard.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.entries)
}

func crashing(t *testing.T, seed uint64, crashes int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	clock := newTestClock()
	fs := vfs.NewCrashableMem()
	s := openAt(t, fs, "/shard", clock)
	setup, err := s.OpenLane(t.Context(), "setup")
	if err != nil {
		t.Fatal(err)
	}
	acked := &acknowledged{entries: map[shard.LaneID][]shard.Entry{}}
	var hosts []shard.Op
	for h := range 4 {
		hosts = append(hosts, shard.Op{PutHost: shardtest.NewHost(h, 40)})
	}
	a, err := setup.Apply(t.Context(), hosts)
	if err != nil {
		t.Fatal(err)
	}
	acked.add(a.Entry)

	stop := make(chan struct{})
	steps := make(chan struct{}, 64)
	var writers sync.WaitGroup
	for w := range 4 {
		l, err := s.OpenLane(t.Context(), fmt.Sprintf("lane-%d", w))
		if err != nil {
			t.Fatal(err)
		}
		ops := &randomOps{rng: rand.New(rand.NewPCG(seed, uint64(w))), first: w * 1_000_000}
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				clock.move(time.Duration(ops.rng.IntN(500)) * time.Millisecond)
				if ops.rng.IntN(4) == 0 {
					if err := ops.decide(t.Context(), s); err != nil {
						t.Errorf("decisions: %v", err)
						return
					}
				}
				a, err := l.Apply(t.Context(), ops.batch())
				if err != nil {
					t.Errorf("Apply: %v", err)
					return
				}
				if a.Entry.Seq > 0 {
					acked.add(a.Entry)
				}
				select {
				case steps <- struct{}{}:
				case <-stop:
					return
				}
			}
		})
	}
	defer func() {
		close(stop)
		writers.Wait()
		mustClose(t, s)
	}()
	for range crashes {
		for range 20 + rng.IntN(60) {
			<-steps
		}
		// The entries that were acknowledged before the power cut.
		before := acked.now()
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		checkLeft(t, left, before)
	}
}

// checkLeft opens the files that a crash left, and checks them.
func checkLeft(t *testing.T, fs *vfs.MemFS, before map[shard.LaneID][]shard.Entry) {
	t.Helper()
	s := openAt(t, fs, "/shard", newTestClock())
	defer mustClose(t, s)
	replayed, lanes, err := shardtest.Replay(t.Context(), s, nil)
	if err != nil {
		t.Fatalf("replaying what was left: %v", err)
	}
	for lane, want := range before {
		got := lanes[lane]
		if len(got) < len(want) {
			t.Fatalf("I3: lane %v had %d entries acknowledged, %d are left", lane, len(want), len(got))
		}
		for i := range want {
			if !shardtest.EqualEntries(got[i], want[i]) {
				t.Errorf("I3: entry %d of lane %v was %+v, is %+v", i+1, lane, want[i], got[i])
			}
		}
	}
	rows, _, err := shardtest.LoadRows(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range rows.Diff(replayed) {
		t.Errorf("rows and journal: %s", d)
	}
	for _, w := range append(rows.Check(), rows.Overfull()...) {
		t.Error(w)
	}
	checkIndexes(t, s)
	checkDecisions(t, s)
}

// checkDecisions compares the stored decisions with their bodies, their indexes and their number.
func checkDecisions(t *testing.T, s *Store) {
	t.Helper()
	want := map[string]bool{}
	n := 0
	var before string
	for more := true; more; {
		p, err := s.FindDecisions(t.Context(), shard.DecisionQuery{Before: before})
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Decisions {
			d := &p.Decisions[i]
			n++
			want[string(nameKey(bodyKey, d.ID))] = true
			for _, term := range d.Terms {
				want[string(named(term))+d.ID] = true
			}
			before = d.ID
		}
		more = p.More
	}
	if n != s.decisions.all.n {
		t.Errorf("%d decisions, counted are %d", n, s.decisions.all.n)
	}
	compareKeys(t, s, []byte{bodyKey, namedKey}, want)
}

// checkIndexes compares the tombstones with their two indexes. No claim may be both live and ended.
func checkIndexes(t *testing.T, s *Store) {
	t.Helper()
	want := map[string]bool{}
	err := s.each(tombstoneKey, func(b []byte) error {
		c, err := rowcodec.Claim(b)
		if err != nil {
			return err
		}
		if c.State.Live() || s.rows.claims[c.ClaimID] != nil {
			t.Errorf("claim %s is live and has a tombstone: %+v", c.ClaimID, c)
		}
		want[string(tombstoneEndKey(c.UpdatedAt, c.ClaimID))] = true
		want[string(endedOfKey(c.ConsumerUUID, c.ClaimID))] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	compareKeys(t, s, []byte{endKey, consumerEndedKey}, want)
}

// compareKeys demands that the keys with these prefixes are exactly want.
func compareKeys(t *testing.T, s *Store, letters []byte, want map[string]bool) {
	t.Helper()
	for _, prefix := range letters {
		it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: after([]byte{prefix})})
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			if !want[string(it.Key())] {
				t.Errorf("key %q has no row", it.Key())
			}
			delete(want, string(it.Key()))
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for k := range want {
		t.Errorf("a row has no key %q", k)
	}
}

// randomOps makes batches of every kind of operation on a lane's own claims.
type randomOps struct {
	rng   *rand.Rand
	first int
	made  int
}

// decide puts, replaces and trims decisions.
func (r *randomOps) decide(ctx context.Context, s *Store) error {
	var ds []shard.Decision
	for range 1 + r.rng.IntN(3) {
		d := shardtest.NewDecision(r.rng.IntN(200))
		d.Terms = append(d.Terms, fmt.Sprint("project:", r.rng.IntN(5)))
		ds = append(ds, d)
	}
	if err := s.PutDecisions(ctx, ds); err != nil {
		return err
	}
	if r.rng.IntN(5) > 0 {
		return nil
	}
	return s.TrimDecisions(ctx, time.Unix(int64(1000+r.rng.IntN(100)), 0), 50)
}

func (r *randomOps) batch() []shard.Op {
	var ops []shard.Op
	for range 1 + r.rng.IntN(4) {
		n := r.first + r.rng.IntN(r.made+1)
		ref := shardtest.Ref(n)
		switch r.rng.IntN(14) {
		case 0:
			ops = append(ops, shard.Op{Confirm: ref})
		case 1, 2:
			ops = append(ops, shard.Op{Release: ref})
		case 3:
			ops = append(ops, shard.Op{Expire: ref})
		case 4:
			ops = append(ops, shard.Op{Pin: &shard.NewPin{
				GroupUUID: shardtest.GroupID(r.rng.IntN(3)), ServiceHost: shardtest.ServiceHost(r.rng.IntN(2)),
				ClaimID: ref.ClaimID, TTL: time.Second,
			}})
		case 5:
			ops = append(ops, shard.Op{Unpin: &shard.Unpin{GroupUUID: shardtest.GroupID(r.rng.IntN(3)), ClaimID: ref.ClaimID}})
		case 6:
			ops = append(ops, shard.Op{Swap: &shard.Swap{
				ClaimID: ref.ClaimID, ConsumerUUID: ref.ConsumerUUID, HostUUID: shardtest.HostID(n % 4), TTL: time.Second,
				Allocations: []shard.Used{{ProviderUUID: shardtest.HostID(n % 4), ResourceClass: shardtest.Class, Amount: 1}},
			}})
		case 7:
			other := shardtest.ConsumerID(n + 500_000)
			ops = append(ops, shard.Op{Transfer: &shard.Transfer{ClaimID: ref.ClaimID, ConsumerUUID: ref.ConsumerUUID, ToConsumer: other}})
		case 8:
			ref.Attempt = "b"
			ops = append(ops, shard.Op{TakeOver: ref})
		case 9:
			r.made++
			c := shardtest.NewClaim(r.first+r.made, r.rng.IntN(4), 1)
			c.ConsumerUUID, c.Moves = ref.ConsumerUUID, ref.ClaimID
			ops = append(ops, shard.Op{Claim: c}, shard.Op{Confirm: &shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID}})
		default:
			r.made++
			c := shardtest.NewClaim(r.first+r.made, r.rng.IntN(4), 1+r.rng.Int64N(3))
			c.TTL = time.Duration(1+r.rng.IntN(5)) * time.Second
			ops = append(ops, shard.Op{Claim: c})
		}
	}
	return ops
}

// TestACrashWhileItIsMade: if a shard's first opening crashes, the next opening succeeds.
func TestACrashWhileItIsMade(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewCrashableMem()
		s := openAt(t, fs, "/shard", newTestClock())
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		mustClose(t, s)
		mustClose(t, openAt(t, left, "/shard", newTestClock()))
	}
	fs := vfs.NewMem()
	if err := fs.MkdirAll("/shard", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockFile, formatFile + newSuffix} {
		f, err := fs.Create("/shard/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, openAt(t, fs, "/shard", newTestClock()))
}
