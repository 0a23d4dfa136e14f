package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const twoConfirmedTotal = "cellgate_gateway_duplicate_confirmed_total"

// While the cell of a request's confirmed claim does not answer, the request is not claimed again. Once the cell is
// back, the repeat is answered as before. Other requests do not wait.
func TestI2_RepeatOfAConfirmedRequestNeedsItsCell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		req := ask(1, 1)
		req.RequestId = "r1"
		one := w.choose(req).GetDestinations()[0].GetSelected()
		if err := w.confirm(one, testUUID(0x1, 1)); err != nil {
			t.Fatal(err)
		}
		sick := w.cells[0]
		if one.GetCell() == w.cells[1].name {
			sick = w.cells[1]
		}
		back := sick.hang()
		e := w.refused(req, fault.CellUnavailable)
		if e.Metadata["cells"] != one.GetCell() || !strings.Contains(e.Message, "claims of this request are confirmed") {
			t.Errorf("%v, %v", e, e.Metadata)
		}
		if n := w.liveClaims(); n != 1 {
			t.Errorf("%d claims", n)
		}
		other := ask(2, 1)
		other.RequestId = "r2"
		if resp := w.choose(other); !resp.GetPartial() {
			t.Errorf("another request: %v", resp)
		}
		back()
		sick.hook(nil, nil)
		time.Sleep(time.Minute) // the breaker closes
		if again := w.choose(req).GetDestinations()[0].GetSelected(); again.GetClaimId() != one.GetClaimId() {
			t.Errorf("claim %s, was %s", again.GetClaimId(), one.GetClaimId())
		}
	})
}

// Both claims of a request are confirmed, in two cells: whichever does not answer, a
// repeat is refused and names it.
func TestI2_RepeatOfARequestConfirmedInTwoCells(t *testing.T) {
	for sick := range 2 {
		t.Run(fmt.Sprintf("cell%d", sick+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Each cell has room for one of the instances.
				w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 1))}, nil)
				req := ask(1, 2)
				req.RequestId = "r1"
				first := w.choose(req).GetDestinations()
				if first[0].GetSelected().GetCell() == first[1].GetSelected().GetCell() {
					t.Fatalf("both are in one cell: %v", first)
				}
				for _, d := range first {
					if err := w.confirm(d.GetSelected(), d.GetInstanceUuid()); err != nil {
						t.Fatal(err)
					}
				}
				back := w.cells[sick].hang()
				if e := w.refused(req, fault.CellUnavailable); e.Metadata["cells"] != w.cells[sick].name {
					t.Errorf("%v, %v", e, e.Metadata)
				}
				back()
				w.cells[sick].hook(nil, nil)
				time.Sleep(time.Minute) // the breaker closes
				for i, d := range w.choose(req).GetDestinations() {
					if d.GetSelected().GetClaimId() != first[i].GetSelected().GetClaimId() {
						t.Errorf("instance %d: claim %s, was %s", i, d.GetSelected().GetClaimId(), first[i].GetSelected().GetClaimId())
					}
				}
			})
		})
	}
}

// Once its claim is released, and its cell says so, the same request is claimed again.
func TestConfirmedRequestIsClaimedAgainAfterItsRelease(t *testing.T) {
	w := start(t, twoCells(), nil)
	req := ask(1, 1)
	req.RequestId = "r1"
	one := w.choose(req).GetDestinations()[0].GetSelected()
	if err := w.confirm(one, testUUID(0x1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.claims.ReleaseClaim(context.Background(), &cellgatev1.ReleaseClaimRequest{ConsumerUuid: testUUID(0x1, 1), ClaimId: one.GetClaimId()}); err != nil {
		t.Fatal(err)
	}
	if again := w.choose(req).GetDestinations()[0].GetSelected(); again.GetClaimId() == one.GetClaimId() {
		t.Errorf("the released claim is answered: %v", again)
	}
}

// A cell did not answer when a claim was confirmed elsewhere. Once it answers, the gateway asks it for the instance,
// and counts two confirmed claims unless one was released meanwhile.
func TestI2_TwoConfirmedAreSeenWhenTheirCellIsBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		release bool
		want    float64
	}{{"both stand", false, 1}, {"the second was released", true, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, twoCells(), nil)
				id := testUUID(0x1, 1)
				one := w.choose(to(ask(1, 1), "cell1")).GetDestinations()[0].GetSelected()
				if err := w.confirm(one, id); err != nil {
					t.Fatal(err)
				}
				back := w.cells[0].hang()
				two := w.choose(to(ask(1, 1), "cell2")).GetDestinations()[0].GetSelected()
				if err := w.confirm(two, id); err != nil {
					t.Fatal(err)
				}
				if c.release {
					ref := &cellgatev1.ReleaseClaimRequest{ConsumerUuid: id, ClaimId: two.GetClaimId(), Cell: "cell2"}
					if _, err := w.claims.ReleaseClaim(context.Background(), ref); err != nil {
						t.Fatal(err)
					}
				}
				if got := w.metric(twoConfirmedTotal); got != 0 {
					t.Errorf("%v counted before the cell is back", got)
				}
				back()
				// It answers again, but not yet about claims.
				w.cells[0].hook(func(_ context.Context, method string, _ any) error {
					if method == "ListClaims" {
						return fault.New(fault.CellUnavailable, "not now")
					}
					return nil
				}, nil)
				time.Sleep(30 * time.Second)
				w.cells[0].hook(nil, nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := w.metric(twoConfirmedTotal); got != c.want {
					t.Errorf("%v counted, want %v", got, c.want)
				}
			})
		})
	}
}
