package cellclient

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

func (c *Cell) listHosts(ctx context.Context) error {
	_, err := Call(ctx, c, c.ClaimBudget, &cellv1.ListHostsRequest{}, cellv1.CellSchedulerClient.ListHosts)
	return err
}

func (c *Cell) ask(ctx context.Context, q *cellv1.Query) error {
	_, _, err := c.Propose(ctx, c.proposeBudget, q, nil)
	return err
}

// When a replica's breaker opens, the calls under way there that change nothing go to the next replica at once,
// whatever is left of the retries.
func TestCall_BreakerOpensMeanwhile_NextReplicaAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := &stub{}
		c := start(t, nil, hangs, &stub{})
		hangs.hook(func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() })
		for c.retries.spend() {
		}
		done := make(chan error, 2)
		go func() { done <- c.listHosts(t.Context()) }()
		go func() { done <- c.ask(t.Context(), &cellv1.Query{}) }()
		synctest.Wait()
		began := time.Now()
		for first := c.Replicas[0]; first.refuses() == nil; {
			p, err := first.breaker.enter(asks)
			if err != nil {
				t.Fatal(err)
			}
			p.leave(failed, fault.New(fault.CellUnavailable, "killed"))
		}
		all(t, done, "")
		if took := time.Since(began); took != 0 {
			t.Errorf("that took %v", took)
		}
	})
}

// A replica of another cell, at a wrong address, is not asked, also before its breaker opens.
func TestCall_ReplicaOfAnotherCell_IsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong, right := &stub{cell: "cell2"}, &stub{}
		c := start(t, nil, wrong, right)
		for _, id := range []string{"a", "b", "c", "d"} {
			if _, err := c.OperateOne(t.Context(), c.ClaimBudget, claim(id)); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.ask(t.Context(), &cellv1.Query{}); err != nil {
			t.Fatal(err)
		}
		wrong.did(t)
		right.did(t, "a", "b", "c", "d")
		if len(wrong.asked) > 0 {
			t.Error("the other cell was asked for hosts")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		wrong := &stub{cell: "cell2"}
		c := start(t, nil, wrong)
		if _, err := c.OperateOne(t.Context(), c.ClaimBudget, claim("a")); !errors.Is(err, ErrNotSent) || fault.KindOf(err) != fault.CellUnavailable {
			t.Error(err)
		}
		wrong.did(t)
	})
}

// What must not be done twice is not sent to another replica when no answer comes.
func TestOperate_NoAnswer_OnlyHarmlessOperationsAreRepeated(t *testing.T) {
	for _, of := range []struct {
		op       *cellv1.ClaimOp
		repeated bool
	}{
		{claim("x"), false},
		{&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Swap{Swap: &cellv1.SwapClaim{ClaimId: "x"}}}, false},
		{&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Transfer{Transfer: &cellv1.TransferClaim{ClaimId: "x"}}}, false},
		{release("x"), true},
	} {
		synctest.Test(t, func(t *testing.T) {
			lost, next := &stub{after: func(any) error { return fault.New(fault.CellUnavailable, "the answer is lost") }}, &stub{}
			c := start(t, nil, lost, next)
			_, err := c.OperateOne(t.Context(), c.ClaimBudget, of.op)
			if (err == nil) != of.repeated {
				t.Errorf("%v: %v", of.op, err)
			}
			if of.repeated {
				next.did(t, "x")
			} else {
				next.did(t)
			}
		})
	}
}

// When every replica is sick the load is not multiplied by their number.
func TestCall_AllReplicasFail_RetriesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		sick := func(_ context.Context, req any) error {
			if _, ok := req.(*cellv1.ListHostsRequest); ok {
				calls.Add(1)
				return fault.New(fault.CellUnavailable, "sick")
			}
			return nil
		}
		a, b := &stub{}, &stub{}
		c := start(t, func(c *Config) { c.Breaker.Failures = 1 << 30 }, a, b)
		a.hook(sick)
		b.hook(sick)
		const users = 300
		for range users {
			if err := c.listHosts(t.Context()); fault.KindOf(err) != fault.CellUnavailable {
				t.Fatal(err)
			}
		}
		if n := calls.Load(); n <= users || n > users+users/retryCost+retryMost/retryCost {
			t.Errorf("%d calls for %d of users", n, users)
		}
	})
}

// Queries that queue while a call is under way go in one call when that call ends, or is slow.
// Beyond maxBatches calls they wait.
func TestPropose_CallUnderWay_QueriesShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := start(t, func(c *Config) { c.ProposeBudget = time.Minute }, s)
		gate := make(chan struct{})
		s.hook(func(_ context.Context, req any) error {
			if _, ok := req.(*cellv1.ProposeBatchRequest); ok {
				<-gate
			}
			return nil
		})
		errs := make(chan error, 24)
		queue := func(n int) {
			for range n {
				go func() { errs <- c.ask(t.Context(), &cellv1.Query{}) }()
				synctest.Wait()
			}
		}
		called := func(want ...int) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.Equal(s.asked, want) {
				t.Errorf("batches of %v, want %v", s.asked, want)
			}
		}
		queue(4)
		called(1)
		time.Sleep(slowLeast)
		called(1, 3)
		queue(20)
		time.Sleep(10 * slowMost)
		called(1, 3)
		close(gate)
		all(t, errs, "")
		called(1, 3, 20)
	})
}

// A query for which a replica first reads its journal delays only other such queries.
func TestPropose_UpToDate_HoldsUpNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := start(t, func(c *Config) { c.ProposeBudget = time.Minute }, s)
		gate := make(chan struct{})
		s.hook(func(_ context.Context, req any) error {
			if b, ok := req.(*cellv1.ProposeBatchRequest); ok && b.GetQueries()[0].GetUpToDate() {
				<-gate
			}
			return nil
		})
		late := make(chan error, maxBatches)
		for range maxBatches {
			go func() { late <- c.ask(t.Context(), &cellv1.Query{UpToDate: true}) }()
			time.Sleep(slowLeast) // the next one goes beside it
		}
		began := time.Now()
		if err := c.ask(t.Context(), &cellv1.Query{}); err != nil || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(gate)
		all(t, late, "")
	})
}

// Queries that a replica gives up in time do not open its breaker, so a caller's slow queries do not take the cell from
// the others. They count as not answered in time.
func TestPropose_ReplicaGivesQueriesUp_BreakerStaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, nil, &stub{failure: &cellv1.Failure{Reason: string(fault.Overloaded), Message: "the query was not answered in time"}})
		for range 20 {
			if err := c.ask(t.Context(), &cellv1.Query{}); !errors.Is(err, ErrTooSlow) || fault.KindOf(err) != fault.CellUnavailable {
				t.Fatal(err)
			}
		}
		if err := c.Unusable(); err != nil {
			t.Error(err)
		}
	})
}
