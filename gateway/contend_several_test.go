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

// As many instances as there is room for, in requests of several, all at once:
// what a request is refused is not left over.
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

// The release before a new start fails once; the request must not meet its own claim.
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

// Contention until a short deadline, over cells that need a while.
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
				// Not shorter when the deadline passes: a cell that answers DEADLINE_EXCEEDED
				// before the gateway's own timer fires is to blame.
				<-time.After(5 * time.Millisecond)
				return nil
			}, nil)
			// Not at the very instant at which a cell answers.
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

// Pinned by another to a host that is full; that other then lets go.
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
