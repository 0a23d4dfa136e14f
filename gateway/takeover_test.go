package gateway

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// opsIn returns the operations of one kind in a call.
func opsIn[T any](req any, of func(*cellv1.ClaimOp) *T) []*T {
	var out []*T
	if b, ok := req.(*cellv1.ClaimBatchRequest); ok {
		for _, op := range b.GetOps() {
			if o := of(op); o != nil {
				out = append(out, o)
			}
		}
	}
	return out
}

// slowLink delays the answers to claims until answered is closed, although the claims are made at once. It delays
// releases until released is closed.
func (w *world) slowLink() (answered, released chan struct{}) {
	answered, released = make(chan struct{}), make(chan struct{})
	for _, c := range w.cells {
		c.hook(func(_ context.Context, _ string, req any) error {
			if len(opsIn(req, (*cellv1.ClaimOp).GetRelease)) > 0 {
				<-released
			}
			return nil
		}, func(_ string, req any) error {
			if len(claimsIn(req)) > 0 {
				<-answered
			}
			return nil
		})
	}
	return answered, released
}

// givenUp sends a request, and gives it up after its claims are made and before the gateway has the answer. The
// releases that follow reach the cells when late is called.
func (w *world) givenUp(req *cellgatev1.SelectDestinationsRequest) (late func()) {
	w.t.Helper()
	answered, released := w.slowLink()
	ctx, giveUp := context.WithCancel(w.t.Context())
	first := w.chooseLater(ctx, req)
	synctest.Wait()
	giveUp()
	if r := <-first; r.err == nil {
		w.t.Fatal("the call that was given up was answered")
	}
	synctest.Wait() // the gateway knows that its caller gave up
	close(answered)
	synctest.Wait()
	return func() { close(released); synctest.Wait() }
}

// A caller gives up and repeats its request at once. The late releases of the first call do not end the claims
// that the repeat is answered with.
func TestI3_RepeatsClaimsOutliveTheCallGivenUp(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, twoCells(), nil)
			req := ask(1, 3)
			req.RequestId = "r1"
			late := w.givenUp(req)
			var ids []string
			for i, d := range w.choose(req).GetDestinations() {
				ids = append(ids, d.GetSelected().GetClaimId())
				if confirmed && i > 0 {
					if err := w.confirm(d.GetSelected(), d.GetInstanceUuid()); err != nil {
						t.Fatal(err)
					}
				}
			}
			late()
			var live []string
			for _, c := range w.cells {
				for _, claim := range c.live() {
					live = append(live, claim.GetClaimId())
				}
			}
			slices.Sort(ids)
			slices.Sort(live)
			if !slices.Equal(ids, live) {
				t.Errorf("answered %v, live %v", ids, live)
			}
		})
	}
}

// If nobody repeats the request, the releases of the call end its claims.
func TestCallGivenUpLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		req := ask(1, 3)
		req.RequestId = "r1"
		w.givenUp(req)()
		if n := w.liveClaims(); n != 0 {
			t.Errorf("%d claims", n)
		}
	})
}

// A call whose deadline passes after its claim was made, and before it is answered, leaves no claim.
func TestACallThatIsLateToAnswerLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late atomic.Bool
		w := startWith(t, twoCells(), nil, Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time {
			if late.CompareAndSwap(true, false) {
				time.Sleep(2 * time.Second) // virtual: past the caller's deadline
			}
			return time.Now()
		}})
		for _, c := range w.cells {
			c.hook(nil, func(_ string, req any) error {
				if len(claimsIn(req)) > 0 {
					late.Store(true)
				}
				return nil
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r := <-w.chooseLater(ctx, ask(1, 1)); r.err == nil {
			t.Fatal("answered after the deadline")
		}
		if n := w.liveClaims(); n != 1 {
			t.Fatalf("%d claims are made, want 1", n)
		}
		time.Sleep(2*time.Second + cellclient.BackgroundBudget)
		synctest.Wait()
		if late.Load() {
			t.Error("the call was not held up")
		}
		if n := w.liveClaims(); n != 0 {
			t.Errorf("%d claims", n)
		}
	})
}

// The claim is released after the repeat finds it and before the repeat takes it over.
func TestClaimThatEndsBeforeItIsKeptIsPlannedAnew(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1))}, nil)
	req := ask(1, 2)
	req.RequestId = "r1"
	first := w.choose(req)
	gone := first.GetDestinations()[1].GetSelected().GetClaimId()
	w.cells[0].hook(func(_ context.Context, _ string, req any) error {
		for _, ref := range opsIn(req, (*cellv1.ClaimOp).GetTakeOver) {
			if ref.GetClaimId() == gone {
				w.cells[0].release(gone, ref.GetConsumerUuid())
			}
		}
		return nil
	}, nil)
	again := w.choose(req)
	for i, same := range []bool{true, false} {
		if got := again.GetDestinations()[i].GetSelected().GetClaimId() == first.GetDestinations()[i].GetSelected().GetClaimId(); got != same {
			t.Errorf("instance %d: same claim %v", i, got)
		}
	}
	if n := w.liveClaims(); n != 2 {
		t.Errorf("%d claims", n)
	}
}

// A cell that does not say whether it took a claim over counts as unavailable for the request. The claim there is not
// released, because an earlier answer may have named it.
func TestCellThatCannotKeepIsLost(t *testing.T) {
	for _, how := range []fault.Kind{"", fault.Overloaded, fault.OutcomeUnknown} { // "" for no reply
		w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
		req := ask(1, 1)
		req.RequestId = "r1"
		first := w.choose(req).GetDestinations()[0].GetSelected()
		in := w.cells[int(first.GetCell()[4]-'1')]
		in.hook(func(_ context.Context, _ string, req any) error {
			if len(opsIn(req, (*cellv1.ClaimOp).GetTakeOver)) == 0 {
				return nil
			}
			if how != "" {
				in.isVague(how)
				return nil
			}
			return errors.New("down")
		}, nil)
		resp := w.choose(req)
		if s := resp.GetDestinations()[0].GetSelected(); s.GetCell() == first.GetCell() || !resp.GetPartial() {
			t.Errorf("%s: answered %s in %s, partial %v", how, s.GetClaimId(), s.GetCell(), resp.GetPartial())
		}
		if !strings.Contains(outcomes(resp.GetCells()), first.GetCell()+" UNAVAILABLE") {
			t.Errorf("%s: %s", how, outcomes(resp.GetCells()))
		}
		if live := in.live(); len(live) != 1 || live[0].GetClaimId() != first.GetClaimId() {
			t.Errorf("%s: left in %s: %v", how, in.name, live)
		}
	}
}

// A repeat takes its claims over in one batch a cell, without the confirmed ones. A first call takes none over.
func TestKeepsAreOneBatchACell(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 4)
	req.RequestId = "r1"
	first := w.choose(req)
	batches := make(chan int, 10)
	for _, c := range w.cells {
		if slices.ContainsFunc(c.did(), func(s string) bool { return strings.HasPrefix(s, "keep ") }) {
			t.Errorf("%s did %v for a first call", c.name, c.did())
		}
		c.hook(nil, func(_ string, req any) error {
			if n := len(opsIn(req, (*cellv1.ClaimOp).GetTakeOver)); n > 0 {
				batches <- n
			}
			return nil
		})
	}
	if d := first.GetDestinations()[0]; w.confirm(d.GetSelected(), d.GetInstanceUuid()) != nil {
		t.Fatal("not confirmed")
	}
	w.choose(req)
	close(batches)
	var sizes []int
	for n := range batches {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	if !slices.Equal(sizes, []int{1, 2}) {
		t.Errorf("batches of %v", sizes)
	}
}

// A claim that is taken over keeps its hold of the group's pin; a claim that is released loses it.
func TestI9_PinOfAKeptClaimStays(t *testing.T) {
	for _, repeat := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, twoCells(), nil)
			req := askGroup(1, 2, "affinity")
			req.RequestId = "r1"
			late := w.givenUp(req)
			want := 0
			if repeat {
				w.choose(req)
				want = 2
			}
			late()
			if n := w.arbiterOf().holders(testUUID(0xe, 1)); n != want {
				t.Errorf("repeated %v: %d holders, want %d", repeat, n, want)
			}
		})
	}
}

// A request that starts over releases its claim, which another call has taken over meanwhile. The request finds the
// claim, and takes it over as another attempt than the one that released it.
func TestStartingOverIsAnotherAttempt(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
	var made, end string
	w.cells[0].hook(func(_ context.Context, _ string, req any) error {
		for _, n := range claimsIn(req) {
			made = n.GetAttempt()
		}
		for _, ref := range opsIn(req, (*cellv1.ClaimOp).GetRelease) {
			w.cells[0].must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_TakeOver{TakeOver: &cellv1.ClaimRef{
				ClaimId: ref.GetClaimId(), ConsumerUuid: ref.GetConsumerUuid(), Attempt: "another call's",
			}}})
		}
		for _, ref := range opsIn(req, (*cellv1.ClaimOp).GetTakeOver) {
			end = ref.GetAttempt()
		}
		return nil
	}, nil)
	w.cells[1].hook(func(_ context.Context, method string, req any) error {
		if len(claimsIn(req)) > 0 {
			w.cells[1].fill(2, 1)
		}
		return nil
	}, nil)
	req := ask(1, 2)
	req.RequestId = "r1"
	req.GetRequestSpec().Flavor.Vcpus = 16
	w.refused(req, fault.NoValidHost)
	if len(w.cells[0].live()) != 1 {
		t.Errorf("what the other call kept was released: %v", w.cells[0].did())
	}
	if made == "" || end == "" || made == end {
		t.Errorf("made by attempt %q, kept by %q", made, end)
	}
}
