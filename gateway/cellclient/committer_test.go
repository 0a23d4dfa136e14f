package cellclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// gated blocks every ClaimBatch until the gate is closed, and then fails those for which refuse returns an error.
func gated(refuse func(*cellv1.ClaimBatchRequest) error) (before func(context.Context, any) error, gate chan struct{}) {
	gate = make(chan struct{})
	return func(ctx context.Context, req any) error {
		b, ok := req.(*cellv1.ClaimBatchRequest)
		if !ok {
			return nil
		}
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		if refuse == nil {
			return nil
		}
		return refuse(b)
	}, gate
}

// send sends operations, each for a caller of its own, one after the other.
func send(ctx context.Context, c *Cell, ops ...*cellv1.ClaimOp) <-chan error {
	errs := make(chan error, len(ops))
	for _, op := range ops {
		go func() {
			got, err := c.OperateOne(ctx, c.ClaimBudget, op)
			if err == nil && got.GetClaim().GetClaimId() != nameOf(op) {
				err = fmt.Errorf("%s was answered with %s", nameOf(op), got.GetClaim().GetClaimId())
			}
			errs <- err
		}()
		synctest.Wait()
	}
	return errs
}

func claims(ids ...string) []*cellv1.ClaimOp {
	var ops []*cellv1.ClaimOp
	for _, id := range ids {
		ops = append(ops, claim(id))
	}
	return ops
}

// all demands that all callers were answered with a kind of error, "" for none.
func all(t *testing.T, errs <-chan error, kind fault.Kind) {
	t.Helper()
	for range cap(errs) {
		switch err := <-errs; {
		case kind == "" && err != nil, kind != "" && fault.KindOf(err) != kind:
			t.Errorf("answered with %v, want %q", err, kind)
		}
	}
}

func TestCommit_CallUnderWay_OthersShareTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := start(t, nil, s)
		before, gate := gated(nil)
		s.hook(before)
		first := send(t.Context(), c, claims("a", "b", "c", "d")...)
		s.called(t, 1)
		time.Sleep(slowLeast) // the first call is slow: the others go beside it
		synctest.Wait()
		s.called(t, 1, 3)
		close(gate)
		all(t, first, "")
		s.did(t, "a", "b", "c", "d")
	})
}

func TestCommit_CallerGaveUp_IsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := start(t, nil, s)
		before, gate := gated(nil)
		s.hook(before)
		first := send(t.Context(), c, claim("a"))
		ctx, cancel := context.WithCancel(t.Context())
		gone, rest := send(ctx, c, claim("b")), send(t.Context(), c, claims("c", "d")...)
		cancel()
		if err := <-gone; !errors.Is(err, ErrNotSent) {
			t.Errorf("the caller that gave up has %v", err)
		}
		time.Sleep(slowLeast)
		close(gate)
		all(t, first, "")
		all(t, rest, "")
		s.did(t, "a", "c", "d")
	})
}

// A call that fails for one of its operations is sent again in parts. Only that operation's caller gets the error.
func TestCommit_OneOperationFails_OthersAreDone(t *testing.T) {
	for _, kind := range []fault.Kind{fault.InvalidRequest, fault.Internal} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stub{}
				c := start(t, nil, s)
				before, gate := gated(func(b *cellv1.ClaimBatchRequest) error {
					if slices.ContainsFunc(b.GetOps(), func(op *cellv1.ClaimOp) bool { return nameOf(op) == "bad" }) {
						return fault.New(kind, "not like this")
					}
					return nil
				})
				s.hook(before)
				good := send(t.Context(), c, claims("a", "b", "c", "d")...)
				bad, more := send(t.Context(), c, claim("bad")), send(t.Context(), c, claim("e"))
				time.Sleep(slowLeast)
				close(gate)
				all(t, good, "")
				all(t, more, "")
				all(t, bad, kind)
				s.did(t, "a", "b", "c", "d", "e")
			})
		})
	}
}

// A call that was done, and then answered with INTERNAL, is sent again in parts. A swap is not, because another
// caller may have moved the claim on.
func TestCommit_DefectAfterDone_SwapIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{after: func(req any) error {
			if len(req.(*cellv1.ClaimBatchRequest).GetOps()) > 1 {
				return fault.New(fault.Internal, "a defect after it was done")
			}
			return nil
		}}
		c := start(t, nil, s)
		before, gate := gated(nil)
		s.hook(before)
		first := send(t.Context(), c, claim("a"))
		swapped := make(chan error, 1)
		go func() {
			_, err := c.ChangeClaim(t.Context(), c.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Swap{Swap: &cellv1.SwapClaim{ClaimId: "swap", HostUuid: "h"}}})
			swapped <- err
		}()
		synctest.Wait()
		beside := send(t.Context(), c, claims("b", "c")...)
		time.Sleep(slowLeast)
		close(gate)
		all(t, first, "")
		all(t, swapped, fault.OutcomeUnknown)
		all(t, beside, "")
		s.called(t, 1, 3, 1, 1)
		s.did(t, "a", "swap", "b", "c", "b", "c")
	})
}

// If a replica answers every call with a defect, parts are sent only until its breaker opens.
func TestCommit_DefectForAll_BreakerEndsTheParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := start(t, nil, s)
		before, gate := gated(func(*cellv1.ClaimBatchRequest) error { return fault.New(fault.Internal, "a defect") })
		s.hook(before)
		var ids []string
		for i := range 64 {
			ids = append(ids, fmt.Sprint(i))
		}
		errs := send(t.Context(), c, claims(ids...)...)
		time.Sleep(slowLeast)
		close(gate)
		for range ids {
			if err := <-errs; err == nil {
				t.Error("answered")
			}
		}
		if len(s.sizes) >= len(ids) {
			t.Errorf("%d calls for %d callers", len(s.sizes), len(ids))
		}
	})
}

// An operation that is still queued when its time ends was not sent. One that was sent may have been done.
func TestCommit_QueuedUntilItsTimeEnds_WasNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := start(t, func(c *Config) { c.ClaimBudget = time.Second }, s)
		c.Replicas[0].operations.calls = 1
		before, gate := gated(nil)
		defer close(gate)
		s.hook(before)
		sent := send(t.Context(), c, claim("a"))
		queued := send(t.Context(), c, claims("b", "c")...)
		for range cap(queued) {
			if err := <-queued; !errors.Is(err, ErrNotSent) || fault.KindOf(err) != fault.CellUnavailable {
				t.Errorf("queued: %v", err)
			}
		}
		if err := <-sent; errors.Is(err, ErrNotSent) || fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("sent: %v", err)
		}
		s.called(t, 1)
	})
}

// Operations that one replica may have done, and that then wait in the queue of the next one until their time ends, were
// sent.
func TestCommit_AnswerLostThenQueued_MayBeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, busy := &stub{after: func(any) error { return fault.New(fault.CellUnavailable, "the answer is lost") }}, &stub{}
		c := start(t, func(c *Config) { c.ClaimBudget = time.Second }, lost, busy)
		c.Replicas[1].operations.calls = 1
		before, gate := gated(nil)
		busy.hook(before)
		first := make(chan error, 1)
		go func() {
			_, err := c.Replicas[1].commit(t.Context(), claims("first"))
			first <- err
		}()
		synctest.Wait()
		if _, err := c.OperateOne(t.Context(), c.ClaimBudget, release("x")); err == nil || errors.Is(err, ErrNotSent) {
			t.Errorf("released: %v", err)
		}
		lost.did(t, "x")
		close(gate)
		all(t, first, "")
		busy.did(t, "first")
	})
}

// A queue that is full refuses at once, with a time to wait; a caller that gives up makes room.
func TestCommit_QueueFull_RefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{}
		c := start(t, nil, s)
		c.Replicas[0].operations.calls, c.Replicas[0].operations.maxItems = 1, 2
		before, gate := gated(nil)
		s.hook(before)
		first := send(t.Context(), c, claim("a"))
		ctx, cancel := context.WithCancel(t.Context())
		gone, queued := send(ctx, c, claim("b")), send(t.Context(), c, claim("c"))
		began := time.Now()
		var e *fault.Error
		if err := <-send(t.Context(), c, claim("d")); !errors.As(err, &e) || !IsShed(err) || e.RetryAfter < defaultRetryAfter || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		cancel()
		<-gone
		room := send(t.Context(), c, claim("e"))
		close(gate)
		all(t, first, "")
		all(t, queued, "")
		all(t, room, "")
		if state := c.ReplicaStates()[0].GetBreaker(); state != cellgatev1.BreakerState_CLOSED {
			t.Errorf("the breaker is %s", state)
		}
	})
}

// The operations of a shared call that a stopping replica did not do are done by the next one.
func TestCommit_ReplicaStops_RestGoesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stops, next := &stub{stopsAt: 1}, &stub{}
		c := start(t, nil, stops, next)
		c.Replicas[0].operations.calls = 1
		before, gate := gated(nil)
		stops.hook(before)
		errs := send(t.Context(), c, release("first"), release("done"), release("refused"), release("refused too"))
		close(gate)
		all(t, errs, "")
		stops.called(t, 1, 3)
		stops.did(t, "first", "done")
		next.did(t, "refused", "refused too")
	})
}

// While a replica awaits the verdicts of hosts, each claim is a call of its own, so that none waits for another claim's
// host. Releases wait for no host.
func TestCommit_ReplicaAwaitsVerdicts_ClaimsGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{awaits: true}
		c := start(t, nil, s)
		before, gate := gated(nil)
		s.hook(before)
		errs := send(t.Context(), c, claims("a", "b", "c")...)
		s.called(t, 1, 1, 1)
		released := send(t.Context(), c, release("d"), release("e"), release("f"))
		time.Sleep(slowLeast)
		synctest.Wait()
		s.called(t, 1, 1, 1, 1, 2)
		close(gate)
		all(t, errs, "")
		all(t, released, "")
	})
}

// How long a call may take until another call is sent beside it follows the usual time of calls, within limits.
func TestBatcher_Patience_FollowsTheUsualTime(t *testing.T) {
	var b batcher[int, int]
	for _, c := range []struct{ takes, slow time.Duration }{
		{0, slowLeast},
		{slowLeast / slowTimes * 2, 2 * slowLeast},
		{100 * time.Millisecond, slowMost},
		{slowLeast / slowTimes * 3, 3 * slowLeast},
		{0, slowLeast},
	} {
		for range 20 * usualOver {
			b.learn(c.takes)
		}
		if got := b.patience().Round(time.Millisecond); got != c.slow {
			t.Errorf("calls take %v: slow is one of %v, want %v", c.takes, got, c.slow)
		}
	}
}
