package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func (w *world) confirm(s *cellgatev1.Selection, instance string) error {
	_, err := w.claims.ConfirmClaim(context.Background(), &cellgatev1.ConfirmClaimRequest{ConsumerUuid: instance, ClaimId: s.GetClaimId()})
	return err
}

func to(req *cellgatev1.SelectDestinationsRequest, cell string) *cellgatev1.SelectDestinationsRequest {
	r := proto.CloneOf(req)
	r.GetRequestSpec().RequestedDestination = &cellgatev1.Destination{Cell: cell}
	return r
}

// A cell that cannot hold the request is still asked for earlier claims.
func TestI2_ClaimInACellLeftOutIsSeen(t *testing.T) {
	w := start(t, twoCells(), nil)
	first := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
	if err := w.confirm(first, testUUID(0x1, 1)); err != nil {
		t.Fatal(err)
	}
	e := w.refused(to(ask(1, 1), "cell2"), fault.AlreadyExists)
	if e.Metadata["cell"] != "cell1" || e.Metadata["claim_id"] != first.GetClaimId() {
		t.Errorf("metadata %v", e.Metadata)
	}
	if n := w.liveClaims(); n != 1 {
		t.Errorf("%d claims", n)
	}
}

// Of two claims of one consumer, made while one cell was away, one at most is
// confirmed once both cells answer.
func TestI2_OneOfTwoClaimsIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		id := testUUID(0x1, 1)
		one := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
		back := w.cells[0].hang()
		two := w.choose(to(ask(1, 1), "cell2")).GetDestinations()[0].GetSelected()
		back()
		w.cells[0].hook(nil, nil)
		if w.liveClaims() != 2 {
			t.Fatalf("%d claims", w.liveClaims())
		}
		if err := w.confirm(two, id); err != nil {
			t.Fatal(err)
		}
		if live := w.cells[0].live(); len(live) != 0 {
			t.Errorf("the other claim is still there: %v", live)
		}
		if k := fault.KindOf(w.confirm(one, id)); k != fault.AlreadyExists {
			t.Errorf("the other claim was confirmed too: %s", k)
		}
		if err := w.confirm(two, id); err != nil {
			t.Errorf("a repeated confirm: %v", err)
		}
	})
}

// A claim that ended is not reinstated if its consumer has another claim.
func TestI2_LateConfirmYieldsToTheClaimMadeSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		id := testUUID(0x1, 1)
		one := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
		w.cells[0].expire(one.GetClaimId())
		w.choose(to(ask(1, 1), "cell2"))
		if k := fault.KindOf(w.confirm(one, id)); k != fault.ClaimExpired {
			t.Errorf("got %s", k)
		}
		if live := w.cells[1].live(); len(live) != 1 {
			t.Errorf("the claim made since is gone: %v", live)
		}
	})
}

// A cell that does not answer delays a confirm by the propose budget, no more.
func TestConfirmGoesOnWithoutACellThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		one := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
		back := w.cells[1].hang()
		defer back()
		began := time.Now()
		if err := w.confirm(one, testUUID(0x1, 1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > w.g.cfg.ProposeBudget {
			t.Errorf("took %v", took)
		}
	})
}

// A repeat answers with the confirmed claim, and releases the other.
func TestRepeatPrefersTheConfirmedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		req := ask(1, 1)
		req.RequestId = "r1"
		first := w.choose(req).GetDestinations()[0].GetSelected()
		away, other := w.cells[0], w.cells[1]
		if first.GetCell() != away.name {
			away, other = other, away
		}
		back := away.hang()
		second := w.choose(req).GetDestinations()[0].GetSelected()
		if second.GetCell() != other.name {
			t.Fatalf("placed in %s", second.GetCell())
		}
		if err := w.confirm(second, testUUID(0x1, 1)); err != nil {
			t.Fatal(err)
		}
		back()
		away.hook(nil, nil)
		again := w.choose(req).GetDestinations()[0].GetSelected()
		if again.GetClaimId() != second.GetClaimId() || again.GetClaimState() != cellgatev1.ClaimState_CONFIRMED {
			t.Errorf("the repeat gives %s (%s), confirmed is %s", again.GetClaimId(), again.GetClaimState(), second.GetClaimId())
		}
		synctest.Wait()
		if live := away.live(); len(live) != 0 {
			t.Errorf("the first claim is still held: %v", live)
		}
	})
}

// A request has claims in two cells, and gives back the one that it does not answer with. That one is confirmed before
// the release comes.
func TestRepeat_OtherClaimIsConfirmedMeanwhile_Stays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		req := ask(1, 1)
		req.RequestId = "r1"
		first := w.choose(req).GetDestinations()[0].GetSelected()
		away := w.cells[0]
		if first.GetCell() != away.name {
			away = w.cells[1]
		}
		back := away.hang()
		second := w.choose(req).GetDestinations()[0].GetSelected()
		back()
		away.hook(beforeRelease(func() { away.confirm(first.GetClaimId(), testUUID(0x1, 1)) }), nil)
		if again := w.choose(req).GetDestinations()[0].GetSelected(); again.GetClaimId() != second.GetClaimId() {
			t.Errorf("the repeat gives %s, the last answer was %s", again.GetClaimId(), second.GetClaimId())
		}
		synctest.Wait()
		if s := away.stateOf(first.GetClaimId()); s != cellgatev1.ClaimState_CONFIRMED {
			t.Errorf("the claim that was confirmed is %s", s)
		}
	})
}

func TestFingerprintIgnoresTheSpellingOfUUIDs(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 1)
	req.RequestId = "r1"
	req.InstanceUuids[0] = "ABCDEF01-0000-4000-8000-00000000000A"
	one := w.choose(req)
	req.InstanceUuids[0] = "abcdef01-0000-4000-8000-00000000000a"
	if two := w.choose(req); two.GetDestinations()[0].GetSelected().GetClaimId() != one.GetDestinations()[0].GetSelected().GetClaimId() {
		t.Error("the same request in lower case is another one")
	}
}
