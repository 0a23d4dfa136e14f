package cell

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// received is a Synchronizer without a store. It keeps the entries of all lanes in memory, as it gets
// them.
type received struct {
	mu    sync.Mutex
	rows  *shardtest.Rows
	lanes map[shard.LaneID][]shard.Entry
	// floor is the last dropped entry of each lane.
	floor shard.Cursor
	// forgets: each entry is dropped on arrival, as if trimmed before anybody reads it.
	forgets bool
}

func newReceived() *received {
	return &received{rows: shardtest.NewRows(), lanes: map[shard.LaneID][]shard.Entry{}, floor: shard.Cursor{}}
}

func (m *received) add(e shard.Entry) {
	if e.Seq == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lanes[e.Lane] = append(m.lanes[e.Lane], e)
	for _, c := range e.Changes {
		m.rows.Put(c, e.At)
	}
	if m.forgets {
		m.floor[e.Lane] += uint64(len(m.lanes[e.Lane]))
		m.lanes[e.Lane] = nil
	}
}

// forget makes readers miss all entries from now on.
func (m *received) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgets = true
}

func (m *received) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	m.mu.Lock()
	var all []shard.Change
	for _, h := range m.rows.Hosts {
		all = append(all, shard.Change{Host: h})
	}
	for _, u := range m.rows.Usages {
		all = append(all, shard.Change{Usage: u})
	}
	for _, c := range m.rows.Claims {
		if c.State.Live() {
			all = append(all, shard.Change{Claim: c})
		}
	}
	for _, p := range m.rows.Pins {
		all = append(all, shard.Change{Pin: p})
	}
	for _, n := range m.rows.Namespaces {
		if n.Facts != "" {
			all = append(all, shard.Change{Namespace: n})
		}
	}
	at := shard.Cursor{}
	for lane, entries := range m.lanes {
		at[lane] = m.floor[lane] + uint64(len(entries))
	}
	m.mu.Unlock()
	for _, c := range all {
		if err := errors.Join(ctx.Err(), visit(c)); err != nil {
			return nil, err
		}
	}
	return at, nil
}

func (m *received) Tail(_ context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []shard.Entry
	to := maps.Clone(after)
	for lane, entries := range m.lanes {
		if after[lane] < m.floor[lane] {
			return nil, nil, fault.New(fault.Gone, "entries of lane %v are not there any more", lane)
		}
		for _, e := range entries[after[lane]-m.floor[lane]:] {
			if len(found) < limit {
				found = append(found, e)
				to[lane] = e.Seq
			}
		}
	}
	return found, to, nil
}

// listener is one replica's access to heard. loads and tails count its calls.
type listener struct {
	*received
	loads, tails atomic.Int64
}

func (l *listener) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	l.loads.Add(1)
	return l.received.Load(ctx, visit)
}

func (l *listener) Tail(ctx context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	l.tails.Add(1)
	return l.received.Tail(ctx, after, limit)
}

// unread is a store that cannot read its rows and journal. heard does that instead.
type unread struct {
	*testStore
	from *listener
}

var errUnread = errors.New("the store was asked for what the synchronizer tells")

func (s unread) synchronizer() shard.Synchronizer { return s.from }

func (s unread) Load(context.Context, func(shard.Change) error) (shard.Cursor, error) {
	return nil, errUnread
}

func (s unread) Tail(context.Context, shard.Cursor, int) ([]shard.Entry, shard.Cursor, error) {
	return nil, nil, errUnread
}

// TestAnythingThatHearsOfEntriesCanSynchronize: replicas learn of hosts and claims
// through shard.Synchronizer alone. Here the entries go through memory, and the store's
// own rows and journal are closed.
func TestAnythingThatHearsOfEntriesCanSynchronize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, all := newStore(t), newReceived()
		store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			applied, err := commit()
			all.add(applied.Entry)
			return applied, err
		})
		to := func() unread { return unread{store, &listener{received: all}} }
		ofTwo := to()
		one := start(t, to(), named("r1"))
		two := start(t, ofTwo, named("r2"), func(c *Config) { c.TailEvery = 10 * time.Second })
		a := one.register(plainState(1, 8))
		b := two.register(plainState(1, 8)) // an agent has a stream to every replica
		one.must(newClaim("k1", 1, 1, 6))
		passed := func(r *testCell, vcpus int32) uint32 {
			t.Helper()
			a.heartbeat()
			b.heartbeat()
			if err := r.cell.journal.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			return uint32(r.propose(query(vcpus)).GetPassed())
		}
		if passed(two, 3) != 0 || passed(two, 2) != 1 {
			t.Error("the second replica does not know what the first one gave")
		}
		two.must(release("k1", 1))
		if passed(one, 8) != 1 {
			t.Error("the first replica does not know what the second one gave back")
		}
		// A replica that comes later, and one that missed entries.
		one.must(newClaim("k2", 2, 1, 5))
		three := start(t, to(), named("r3"))
		c := three.register(plainState(1, 8))
		c.heartbeat()
		if passed(three, 4) != 0 || passed(three, 3) != 1 {
			t.Error("a replica that begins does not know what there is")
		}
		all.forget()
		one.must(newClaim("k3", 3, 1, 2))
		if passed(two, 2) != 0 || passed(two, 1) != 1 {
			t.Error("a replica that missed entries does not know what there is")
		}
		if loads, tails := ofTwo.from.loads.Load(), ofTwo.from.tails.Load(); loads != 2 || tails == 0 {
			t.Errorf("it loaded %d times, and tailed %d times", loads, tails)
		}
	})
}
