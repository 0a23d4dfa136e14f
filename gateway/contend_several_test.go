package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// As many instances as fit are requested at once, several per request. Hosts that one refused request claimed in vain
// are left for others: at most a quarter of the hosts stays free.
func TestSeveralInstancesEachFillWhatThereIs(t *testing.T) {
	for _, c := range []struct{ Cells, hosts, requests, instances int }{
		{2, 20, 40, 2}, {3, 20, 20, 3}, {3, 20, 6, 10},
	} {
		w := start(t, cellsOf(c.Cells, c.hosts), patient)
		var reqs []*cellgatev1.SelectDestinationsRequest
		for i := range c.requests {
			reqs = append(reqs, whole(1+c.instances*i, c.instances))
		}
		for i, err := range w.many(reqs) {
			if err != nil && fault.KindOf(err) != fault.NoValidHost {
				t.Errorf("%v: request %d: %v", c, i, err)
			}
		}
		if left := c.Cells*c.hosts - w.liveClaims(); left%c.instances != 0 || left > c.Cells*c.hosts/4 {
			t.Errorf("%v: %d of %d hosts are left", c, left, c.Cells*c.hosts)
		}
	}
}

// A request starts over, and the release of its first claim fails once. The request must not take
// this claim for another caller's.
func TestAFailedReleaseIsNotMetAsAnothersClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1))}, nil)
		var claims, releases atomic.Int32
		w.cells[0].hook(func(_ context.Context, method string, req any) error {
			b, ok := req.(*cellv1.ClaimBatchRequest)
			if !ok {
				return nil
			}
			if len(claimsIn(req)) > 0 && claims.Add(1) == 1 {
				w.cells[0].fill(2, 1)
			}
			if b.GetOps()[0].GetRelease() != nil && releases.Add(1) == 1 {
				return fault.New(fault.Overloaded, "busy")
			}
			return nil
		}, nil)
		_, err := w.scheduler.SelectDestinations(context.Background(), whole(1, 2))
		if k := fault.KindOf(err); k != fault.CellUnavailable {
			t.Errorf("got %v, want CELL_UNAVAILABLE", err)
		}
	})
}

// Claims are contended until a short deadline, and each call to the cell takes 5 ms.
func TestContendedAtAShortDeadlineBlamesNoCell(t *testing.T) {
	kinds := map[fault.Kind]int{}
	const deadlines = 10
	for n := range deadlines {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, []*testCell{newCell(1, testHost(1, 1))}, nil)
			w.cells[0].hook(func(_ context.Context, method string, req any) error {
				if method == "ClaimBatch" {
					for _, c := range claimsIn(req) {
						c.Allocations[0].Amount = 100000
					}
				}
				// The wait ignores the deadline: a cell that answers DEADLINE_EXCEEDED before the
				// gateway's own timer fires is to blame.
				<-time.After(5 * time.Millisecond)
				return nil
			}, nil)
			// The deadline is never at the very instant at which a cell answers.
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(200+4*n)*time.Millisecond+137*time.Microsecond)
			defer cancel()
			_, err := w.g.selector.Select(ctx, ask(1, 1))
			kinds[fault.KindOf(err)]++
		})
	}
	// A claim that was on its way at the deadline may have been made.
	if n := kinds[fault.Contended]; n < deadlines/2 || n+kinds[fault.OutcomeUnknown] != deadlines {
		t.Errorf("kinds %v", kinds)
	}
}

// Another request has pinned the group to a full host, and then unpins it.
func TestPinOfAnotherThatLetsGo(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1))}, nil)
	w.cells[0].fill(1, 1)
	group := testUUID(0xe, 1)
	w.cells[0].must(&cellv1.ClaimOp{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{
		GroupUuid: group, ServiceHost: "host001", ClaimId: "other", Ttl: durationpb.New(time.Minute),
	}}})
	var pins atomic.Int32
	w.cells[0].hook(func(_ context.Context, method string, req any) error {
		if b, ok := req.(*cellv1.ClaimBatchRequest); ok && b.GetOps()[0].GetPin() != nil && pins.Add(1) == 1 {
			go w.cells[0].unpin(group, "other")
		}
		return nil
	}, nil)
	if _, err := w.scheduler.SelectDestinations(context.Background(), askGroup(1, 1, "affinity")); err != nil {
		t.Errorf("host002 fits: %v", err)
	}
}
