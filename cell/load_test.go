package cell

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/shard"
)

// breakingStore breaks off the first few loads, after all rows were visited. It repeats each claim
// so often that the table already shows it.
type breakingStore struct {
	*testStore
	breaks *atomic.Int64
	// between runs before such a load fails.
	between func()
}

func (s breakingStore) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	if s.breaks.Add(-1) < 0 {
		return s.testStore.Load(ctx, visit)
	}
	_, err := s.testStore.Load(ctx, func(c shard.Change) error {
		if c.Claim != nil {
			for range replica.LoadBatch {
				if err := visit(c); err != nil {
					return err
				}
			}
		}
		return visit(c)
	})
	s.between()
	if err != nil {
		return nil, err
	}
	return nil, fault.New(fault.CellUnavailable, "the database broke off a load")
}

// A load that the store breaks off is restarted. Claims that ended in between are not kept.
func TestALoadThatBreaksOffIsBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one := start(t, store, named("r1"))
		one.register(plainState(1, 8))
		one.must(newClaim("k1", 1, 1, 6))
		one.must(newClaim("k2", 2, 1, 1))
		ended := false
		breaks := new(atomic.Int64)
		breaks.Store(replica.MaxLoads - 1)
		two := start(t, breakingStore{store, breaks, func() {
			if !ended {
				one.must(release("k1", 1))
				ended = true
			}
		}}, named("r2"))
		if ids := two.cell.rows.LiveClaims(); len(ids) != 1 || ids[0].ClaimID != "k2" || !ended {
			t.Errorf("the claims that are known to live are %v", ids)
		}
	})
}

// If the store keeps breaking off loads, the start fails.
func TestAStartGivesUpLoadsThatBreakOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		one := start(t, store, named("r1"))
		one.register(plainState(1, 8))
		breaks := new(atomic.Int64)
		breaks.Store(1 << 20)
		c, err := New(Config{Name: "a", UUID: cellUUID, Replica: "r"}, Deps{Store: breakingStore{store, breaks, func() {}}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("Run: %v", err)
		}
		if n := 1<<20 - breaks.Load(); n != replica.MaxLoads {
			t.Errorf("loaded %d times, want %d", n, replica.MaxLoads)
		}
	})
}
