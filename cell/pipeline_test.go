package cell

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// commitGate lets one transaction begin for each pass. arrived gets the operations of each.
type commitGate struct {
	arrived chan []shard.Op
	pass    chan struct{}
}

func newGate(s *testStore) *commitGate {
	g := &commitGate{arrived: make(chan []shard.Op, 100), pass: make(chan struct{}, 100)}
	s.hook(func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
		g.arrived <- ops
		<-g.pass
		return commit()
	})
	return g
}

func TestWhatQueuesDuringATransactionGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(1, 1000))
		g := newGate(store)
		var wg sync.WaitGroup
		wg.Go(func() { r.must(newClaim("first", 1000, 1, 1)) })
		if first := <-g.arrived; len(first) != 1 {
			t.Fatalf("the first transaction has %d operations", len(first))
		}
		for n := range 50 {
			wg.Go(func() { r.must(newClaim(fmt.Sprintf("k%d", n), n, 1, 1)) })
		}
		for n := range 8 {
			wg.Go(func() { r.register(plainState(100+n, 8)) })
		}
		synctest.Wait()
		g.pass <- struct{}{}
		second := <-g.arrived
		claims := 0
		for _, op := range second {
			if op.Claim != nil {
				claims++
			}
		}
		if claims != 50 || len(second) != 58 {
			t.Errorf("the second transaction has %d claims of %d operations, want 50 of 58", claims, len(second))
		}
		close(g.pass)
		wg.Wait()
	})
}

func TestAFullQueueIsOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, func(c *Config) { c.MaxQueue = 2 })
		r.register(plainState(1, 1000))
		g := newGate(store)
		var wg sync.WaitGroup
		wg.Go(func() { r.must(newClaim("a", 1, 1, 1)) })
		<-g.arrived
		wg.Go(func() { r.must(newClaim("b", 2, 1, 1), newClaim("c", 3, 1, 1)) })
		synctest.Wait()
		_, err := r.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("d", 4, 1, 1)}})
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Overloaded || f.RetryAfter <= 0 {
			t.Errorf("a full queue gave %#v", err)
		}
		close(g.pass)
		wg.Wait()
		if p := r.propose(query(1000 - 3)); p.GetPassed() != 1 {
			t.Errorf("the others were not done: %v", p)
		}
	})
}

func TestACallerThatLeavesDoesNotCancelTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(1, 1000))
		g := newGate(store)
		ctx, leave := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := r.cells.ClaimBatch(ctx, &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("left", 1, 1, 1)}})
			if err == nil {
				t.Error("the caller that left got an answer")
			}
		})
		<-g.arrived
		wg.Go(func() { r.must(newClaim("stayed", 2, 1, 1)) })
		leave()
		synctest.Wait()
		close(g.pass)
		wg.Wait()
		q := query(1)
		q.ConsumerUuids = []string{consumerUUID(1), consumerUUID(2)}
		// The transaction was under way: both are claimed, the first until its
		// lease is over.
		if p := r.propose(q); len(p.GetClaims()) != 2 {
			t.Errorf("claims are %v", p.GetClaims())
		}
	})
}

func TestApply_UnknownOutcome_IsReportedAndResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store, func(c *Config) { c.TailEvery = time.Hour })
		r.register(plainState(1, 8))
		calls := 0
		store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			calls++
			applied, err := commit()
			if calls == 1 {
				return shard.Applied{}, fault.New(fault.OutcomeUnknown, "the answer was lost")
			}
			return applied, err
		})
		for i, o := range r.do(newClaim("k1", 1, 1, 2), newClaim("k2", 2, 1, 2)) {
			if o.GetRefusal().GetReason() != string(fault.OutcomeUnknown) || o.GetClaim() != nil {
				t.Errorf("operation %d: %v", i, o)
			}
		}
		r.must(newClaim("k3", 3, 1, 1))
		// The replica learns of it at once, not at the next read of the journal.
		synctest.Wait()
		q := query(3)
		q.ConsumerUuids = []string{consumerUUID(1), consumerUUID(2), consumerUUID(3)}
		if p := r.propose(q); p.GetPassed() != 1 || len(p.GetClaims()) != 3 {
			t.Errorf("the journal has the claims, the table does not: %v", p)
		}
		if p := r.propose(query(4)); p.GetPassed() != 0 {
			t.Error("the claims of the unknown transaction are not counted")
		}
		at := r.cell.journal.Position()
		if len(at) != 1 || at[slices.Collect(maps.Keys(at))[0]] != 3 {
			t.Errorf("the own lane is followed to %v", at)
		}
	})
}

func TestAStoreThatFailsIsUnavailable(t *testing.T) {
	store := newStore(t)
	r := start(t, store)
	r.register(plainState(1, 8))
	store.hook(func([]shard.Op, func() (shard.Applied, error)) (shard.Applied, error) {
		return shard.Applied{}, context.DeadlineExceeded
	})
	_, err := r.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k", 1, 1, 1)}})
	if fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("got %v", err)
	}
	store.hook(nil)
	r.must(newClaim("k", 1, 1, 1))
}

func TestTheTransactionInFlightIsFinishedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(1, 8))
		g := newGate(store)
		var wg sync.WaitGroup
		wg.Go(func() { r.must(newClaim("inflight", 1, 1, 1)) })
		<-g.arrived
		wg.Go(func() {
			_, err := r.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("waits", 2, 1, 1)}})
			if fault.KindOf(err) != fault.CellUnavailable {
				t.Errorf("what waited at the end got %v", err)
			}
		})
		synctest.Wait()
		wg.Go(r.stop)
		synctest.Wait()
		close(g.pass)
		wg.Wait()
	})
}

// Callers of the last transaction that ask again at once join those who waited.
func TestATransactionWaitsForThoseJustAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(1, 1000))
		g := newGate(store)
		var wg sync.WaitGroup
		wg.Go(func() {
			r.must(newClaim("first", 1000, 1, 1))
			time.Sleep(200 * time.Microsecond) // the caller processes its answer
			r.must(newClaim("again", 1001, 1, 1))
		})
		<-g.arrived
		for n := range 7 {
			wg.Go(func() { r.must(newClaim(fmt.Sprintf("k%d", n), n, 1, 1)) })
		}
		synctest.Wait()
		time.Sleep(4 * time.Millisecond) // the duration of the transaction
		began := time.Now()
		g.pass <- struct{}{}
		if second := <-g.arrived; len(second) != 8 {
			t.Errorf("the second transaction has %d operations, want 8", len(second))
		}
		if waited := time.Since(began); waited > time.Millisecond {
			t.Errorf("it waited %v, more than a quarter of the one before", waited)
		}
		close(g.pass)
		wg.Wait()
	})
}
