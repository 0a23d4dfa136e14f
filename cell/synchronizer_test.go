package cell

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// heard is a Synchronizer without a store: the entries of all lanes, in memory, as
// they are handed to it.
type heard struct {
	mu    sync.Mutex
	rows  *shardtest.Rows
	lanes map[shard.LaneID][]shard.Entry
	// floor is what was dropped of each lane.
	floor shard.Cursor
	// loads and tails count the calls.
	loads, tails int
}

func newHeard() *heard {
	return &heard{rows: shardtest.NewRows(), lanes: map[shard.LaneID][]shard.Entry{}, floor: shard.Cursor{}}
}

func (m *heard) add(e shard.Entry) {
	if e.Seq == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lanes[e.Lane] = append(m.lanes[e.Lane], e)
	for _, c := range e.Changes {
		m.rows.Put(c, e.At)
	}
}

// drop forgets the entries, as a trim does.
func (m *heard) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for lane, entries := range m.lanes {
		m.floor[lane] += uint64(len(entries))
		m.lanes[lane] = nil
	}
}

func (m *heard) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	m.mu.Lock()
	m.loads++
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

func (m *heard) Tail(_ context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tails++
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

func (m *heard) calls() (loads, tails int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loads, m.tails
}

// unread is a store that tells nobody of its rows and its journal: heard does.
type unread struct {
	*testStore
	from *heard
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
		store := unread{newStore(t), newHeard()}
		store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			applied, err := commit()
			store.from.add(applied.Entry)
			return applied, err
		})
		one := start(t, store, named("r1"))
		two := start(t, store, named("r2"), func(c *Config) { c.TailEvery = 10 * time.Second })
		a := one.register(plainState(1, 8))
		b := two.register(plainState(1, 8)) // an agent streams to every replica
		one.must(newClaim("k1", 1, 1, 6))
		passed := func(r *replica, vcpus int32) uint32 {
			t.Helper()
			a.heartbeat()
			b.heartbeat()
			if err := r.cell.follower.catchUp(t); err != nil {
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
		three := start(t, store, named("r3"))
		c := three.register(plainState(1, 8))
		c.heartbeat()
		if passed(three, 4) != 0 || passed(three, 3) != 1 {
			t.Error("a replica that begins does not know what there is")
		}
		loads, _ := store.from.calls()
		one.must(newClaim("k3", 3, 1, 2))
		store.from.drop()
		if passed(two, 2) != 0 || passed(two, 1) != 1 {
			t.Error("a replica that missed entries does not know what there is")
		}
		if again, tails := store.from.calls(); again != loads+1 || tails == 0 {
			t.Errorf("loaded %d times, before %d; tailed %d times", again, loads, tails)
		}
	})
}
