package gateway

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// holdClaims blocks the claims of a consumer, in every cell, until the returned function is called.
func (w *world) holdClaims(consumer string) (release func()) {
	released := make(chan struct{})
	for _, c := range w.cells {
		c.hook(func(ctx context.Context, _ string, req any) error {
			batch, ok := req.(*cellv1.ClaimBatchRequest)
			if !ok || !slices.ContainsFunc(batch.GetOps(), func(op *cellv1.ClaimOp) bool { return op.GetClaim().GetConsumerUuid() == consumer }) {
				return nil
			}
			select {
			case <-released:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, nil)
	}
	return func() { close(released) }
}

// chosen is the result of one of several calls at once.
type chosen struct {
	resp *cellgatev1.SelectDestinationsResponse
	err  error
}

// chooseLater sends a request without waiting for the answer.
func (w *world) chooseLater(ctx context.Context, req *cellgatev1.SelectDestinationsRequest) <-chan chosen {
	out := make(chan chosen, 1)
	req = proto.CloneOf(req)
	go func() {
		resp, err := w.scheduler.SelectDestinations(ctx, req)
		out <- chosen{resp, err}
	}()
	return out
}

// startHeld starts a request whose claim is held up, in two cells of one host each. It then places another instance in
// the chosen cell, so that an equal request that did not wait would choose the other cell.
func startHeld(t *testing.T) (w *world, req *cellgatev1.SelectDestinationsRequest, first <-chan chosen, release func()) {
	t.Helper()
	w = start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	req = ask(1, 1)
	dry := proto.CloneOf(req)
	req.RequestId, dry.RequestId, dry.DryRun = "r1", "r1", true
	cell := w.choose(dry).GetDestinations()[0].GetSelected().GetCell()
	release = w.holdClaims(testUUID(0x1, 1))
	first = w.chooseLater(t.Context(), req)
	synctest.Wait()
	w.choose(to(ask(2, 1), cell))
	if now := w.choose(dry).GetDestinations()[0].GetSelected().GetCell(); now == cell {
		t.Fatalf("an equal request would choose %s again", now)
	}
	return w, req, first, release
}

func TestEqualRequestsAtOnceGetOneAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, req, first, release := startHeld(t)
		var others []<-chan chosen
		for range 3 {
			others = append(others, w.chooseLater(t.Context(), req))
		}
		synctest.Wait()
		release()
		a := <-first
		if a.err != nil {
			t.Fatal(a.err)
		}
		for _, other := range others {
			b := <-other
			if b.err != nil {
				t.Fatal(b.err)
			}
			if x, y := a.resp.GetDestinations()[0].GetSelected(), b.resp.GetDestinations()[0].GetSelected(); x.GetClaimId() != y.GetClaimId() {
				t.Errorf("claims %s in %s and %s in %s", x.GetClaimId(), x.GetCell(), y.GetClaimId(), y.GetCell())
			}
			if a.resp.GetDecisionId() != b.resp.GetDecisionId() {
				t.Errorf("decisions %s, %s", a.resp.GetDecisionId(), b.resp.GetDecisionId())
			}
		}
		if n := w.liveClaims(); n != 2 {
			t.Errorf("%d claims; one of each consumer was to be made", n)
		}
	})
}

// The call that runs is given up; the equal call that waited makes the claim.
func TestEqualRequestGoesOnAfterOneThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		req := ask(1, 1)
		req.RequestId = "r1"
		release := w.holdClaims(testUUID(0x1, 1))
		ctx, giveUp := context.WithCancel(t.Context())
		first := w.chooseLater(ctx, req)
		synctest.Wait()
		second := w.chooseLater(t.Context(), req)
		synctest.Wait()
		giveUp()
		if r := <-first; r.err == nil {
			t.Error("the call that was given up was answered")
		}
		release()
		r := <-second
		if r.err != nil {
			t.Fatal(r.err)
		}
		synctest.Wait()
		if n := w.liveClaims(); n != 1 {
			t.Errorf("%d claims", n)
		}
	})
}

func TestWaiterThatGivesUpLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, req, first, release := startHeld(t)
		ctx, giveUp := context.WithCancel(t.Context())
		waiter := w.chooseLater(ctx, req)
		last := w.chooseLater(t.Context(), req)
		synctest.Wait()
		giveUp()
		if r := <-waiter; r.err == nil {
			t.Error("the waiter was answered")
		}
		synctest.Wait()
		if n := w.g.queues.selections.State().Taken; n != 2 {
			t.Errorf("%d selections run", n)
		}
		release()
		a, b := <-first, <-last
		if a.err != nil || b.err != nil {
			t.Fatal(a.err, b.err)
		}
		if n := w.liveClaims(); n != 2 {
			t.Errorf("%d claims", n)
		}
	})
}

// A request that only shares the id, and a dry run, wait for nobody.
func TestOtherRequestsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, req, first, release := startHeld(t)
		other := ask(3, 1)
		other.RequestId = req.GetRequestId()
		w.choose(other)
		dry := proto.CloneOf(req)
		dry.DryRun = true
		w.choose(dry)
		select {
		case r := <-first:
			t.Errorf("the first was not held up: %v", r)
		default:
		}
		release()
		if r := <-first; r.err != nil {
			t.Error(r.err)
		}
	})
}
