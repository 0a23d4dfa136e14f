package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// slowProposals makes a cell answer proposals, and probes when probes is set, after d.
func slowProposals(c *testCell, d time.Duration, probes bool) {
	c.hook(func(ctx context.Context, method string, _ any) error {
		if method == "ProposeBatch" || probes && method == "GetSummary" {
			return cellclient.Pause(ctx, d)
		}
		return nil
	}, nil)
}

// chooseWithin sends a request with a deadline.
func (w *world) chooseWithin(d time.Duration, req *cellgatev1.SelectDestinationsRequest) (*cellgatev1.SelectDestinationsResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	resp, err := w.scheduler.SelectDestinations(ctx, req)
	return resp, rpc.FromStatus(err)
}

// A caller repeats its request with a deadline that is too short for the cell of its claim, which is healthy but slow:
// no second claim is made elsewhere.
func TestI2_RepeatInAHurryIsNotClaimedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		req := ask(1, 1)
		req.RequestId = "r1"
		first := w.choose(req).GetDestinations()[0].GetSelected()
		var home *testCell
		for _, c := range w.cells {
			if c.name == first.GetCell() {
				home = c
			}
		}
		slowProposals(home, 20*time.Millisecond, false)
		for range 3 {
			resp, err := w.chooseWithin(30*time.Millisecond, req)
			if !errors.Is(err, &fault.Error{Kind: fault.CellUnavailable}) {
				t.Fatalf("a repeat in a hurry gave %v, %v; want CELL_UNAVAILABLE", resp, err)
			}
		}
		if n := w.liveClaims(); n != 1 {
			t.Errorf("the instance has %d live claims", n)
		}
		resp, err := w.chooseWithin(time.Second, req)
		if err != nil || resp.GetDestinations()[0].GetSelected().GetClaimId() != first.GetClaimId() {
			t.Errorf("a repeat with time gave %v, %v; want the claim %s", resp, err, first.GetClaimId())
		}
		w.counts(0, "cellgate_gateway_cell_searches_total", home.name, "unavailable")
	})
}

// A request without an id cannot be repeated, so it goes on with the cells that answered.
func TestHurryOfARequestWithoutAnIDIsPartial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		slowProposals(w.cells[0], 20*time.Millisecond, false)
		resp, err := w.chooseWithin(30*time.Millisecond, ask(1, 1))
		if err != nil || !resp.GetPartial() {
			t.Fatalf("%v, %v; want a partial answer", resp, err)
		}
		w.counts(1, "cellgate_gateway_cell_searches_total", w.cells[0].name, "deadline_too_short")
	})
}

// A move is not made if the cell that may hold its source does not answer in time.
func TestMoveInAHurryDoesNotMissItsSource(t *testing.T) {
	for _, op := range moveOperations {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, twoCells(), nil)
			w.built("cell1")
			slowProposals(w.cells[0], 20*time.Millisecond, false)
			for _, id := range []string{"", "m1"} {
				resp, err := w.chooseWithin(30*time.Millisecond, move(op, id))
				if !errors.Is(err, &fault.Error{Kind: fault.CellUnavailable}) {
					t.Errorf("%s in a hurry gave %v, %v; want CELL_UNAVAILABLE", op, resp, err)
				}
			}
			if n := w.liveClaims(); n != 1 {
				t.Errorf("the instance has %d live claims", n)
			}
		})
	}
}

// A cell that does not answer its probes either is passed over: more time would not
// help.
func TestI7_HurryDoesNotWaitForACellThatIsSick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells(), nil)
		slowProposals(w.cells[0], time.Minute, true)
		req := ask(1, 1)
		req.RequestId = "r1"
		if _, err := w.chooseWithin(30*time.Millisecond, req); !errors.Is(err, &fault.Error{Kind: fault.CellUnavailable}) {
			t.Fatalf("before a probe failed: %v; want CELL_UNAVAILABLE", err)
		}
		time.Sleep(2 * (w.g.cfg.Breaker.ProbeEvery + w.g.cfg.Breaker.ProbeBudget))
		resp, err := w.chooseWithin(30*time.Millisecond, req)
		if err != nil || !resp.GetPartial() {
			t.Fatalf("after a probe failed: %v, %v; want a partial answer", resp, err)
		}
	})
}

// Before the deadline, the error names a silent cell and how long the gateway waited for it.
func TestSilentCell_NamedBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, twoCells()[:1], nil)
		w.cells[0].hook(hang("ProposeBatch"), nil)
		began := time.Now()
		_, err := w.chooseWithin(100*time.Millisecond, ask(1, 1))
		took := time.Since(began)
		if !errors.Is(err, &fault.Error{Kind: fault.CellUnavailable}) || !strings.Contains(err.Error(), "within 50ms") || took != 50*time.Millisecond {
			t.Errorf("after %v: %v; want CELL_UNAVAILABLE after 50ms", took, err)
		}
	})
}
