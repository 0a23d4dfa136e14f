package cell

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/health"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// failing returns the names of the checks that fail.
func (r *testCell) failing() (names []string) {
	report, _ := r.cell.Health().Ready()
	for _, c := range report.Checks {
		if !c.OK {
			names = append(names, c.Name)
			if c.Why == "" {
				r.t.Errorf("check %s does not say why", c.Name)
			}
		}
	}
	return names
}

func TestReadyFollowsTheTableAndTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		c, err := New(Config{Name: "cell1", UUID: cellUUID, Replica: "r1"}, Deps{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		if report, ok := c.Health().Ready(); ok || !hasFailed(report, "table") {
			t.Errorf("before Run: %+v", report)
		}
		r := start(t, store)
		r.register(plainState(0, 8))
		if bad := r.failing(); bad != nil {
			t.Errorf("after the start: %v fail", bad)
		}
		// A transaction that fails is noticed. The lease scan notices that the store works again.
		store.hook(func([]shard.Op, func() (shard.Applied, error)) (shard.Applied, error) {
			return shard.Applied{}, fault.Wrap(fault.CellUnavailable, errors.New("disk"), "the disk does not answer")
		})
		req := &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k1", 1, 0, 1)}}
		if _, err := r.cells.ClaimBatch(t.Context(), req); fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("claim: %v", err)
		}
		if bad := r.failing(); len(bad) != 1 || bad[0] != "store" {
			t.Errorf("after a failed transaction: %v fail, want store", bad)
		}
		store.hook(nil)
		time.Sleep(3 * time.Second) // virtual: a lease scan
		if bad := r.failing(); bad != nil {
			t.Errorf("when the store works again: %v fail", bad)
		}
		r.stop()
		if bad := r.failing(); len(bad) != 1 || bad[0] != "table" {
			t.Errorf("after the end: %v fail, want table", bad)
		}
	})
}

// A transaction that never ends needs a restart.
func TestAliveUntilATransactionStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		r := start(t, store)
		r.register(plainState(0, 8))
		let := make(chan struct{})
		store.hook(func(_ []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error) {
			<-let
			return commit()
		})
		claimed := make(chan error, 1)
		go func() {
			_, err := r.cells.ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k1", 1, 0, 1)}})
			claimed <- err
		}()
		time.Sleep(shard.ApplyLimit) // virtual
		if report, ok := r.cell.Health().Alive(); !ok {
			t.Errorf("after %v: %+v", shard.ApplyLimit, report)
		}
		time.Sleep(shard.ApplyLimit + time.Second) // virtual
		if report, ok := r.cell.Health().Alive(); ok || !hasFailed(report, "transactions") {
			t.Errorf("after %v: %+v", 2*shard.ApplyLimit+time.Second, report)
		}
		store.hook(nil)
		close(let)
		if err := <-claimed; fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("claim: %v, want that the shard did not answer in time", err)
		}
		synctest.Wait()
		if report, ok := r.cell.Health().Alive(); !ok {
			t.Errorf("when it came back: %+v", report)
		}
	})
}

func hasFailed(r health.Report, name string) bool {
	for _, c := range r.Checks {
		if c.Name == name && !c.OK {
			return true
		}
	}
	return false
}
