package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

// full makes a cell refuse every ClaimBatch as if its queue were full, and counts the refusals.
func (f *testCell) full(wait time.Duration) *atomic.Int32 {
	var refused atomic.Int32
	f.hook(func(_ context.Context, method string, _ any) error {
		if method != "ClaimBatch" {
			return nil
		}
		refused.Add(1)
		return &fault.Error{Kind: fault.Overloaded, Message: "too many operations wait", RetryAfter: wait}
	}, nil)
	return &refused
}

// A claim that a full queue refuses was not made. The instance is planned elsewhere, and nothing is released.
func TestClaimThatAFullQueueRefusesGoesElsewhere(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 1)), newCell(2, testHost(2, 9))}, nil)
	refused := w.cells[1].full(300 * time.Millisecond)
	resp := w.choose(ask(1, 1))
	if s := resp.GetDestinations()[0].GetSelected(); s.GetCell() != "cell1" {
		t.Errorf("selected %v", s)
	}
	if got := outcomes(resp.GetCells()); got != "cell1 SEARCHED, cell2 UNAVAILABLE" || !resp.GetPartial() {
		t.Errorf("cells: %s, partial %v", got, resp.GetPartial())
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("cell2 was sent %d batches", n)
	}
}

func TestFullQueueIsOverloadedToTheCaller(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 9)), newCell(2, testHost(2, 1))}, nil)
	req := ask(1, 2)
	req.GetRequestSpec().Flavor.Vcpus = 20 // cell1 alone has such a host
	refused := w.cells[0].full(300 * time.Millisecond)
	e := w.refused(req, fault.Overloaded)
	if e.RetryAfter != 300*time.Millisecond || e.Metadata["cells"] != "cell1" || !strings.Contains(e.Message, "too many operations wait") {
		t.Errorf("%v: retry after %v, %v", e, e.RetryAfter, e.Metadata)
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("cell1 was sent %d batches for a request that it refused once", n)
	}
	rec := w.send(http.MethodPost, "/v1/select_destinations",
		`{"instance_uuids":["`+testUUID(0x1, 9)+`"],"request_spec":{"flavor":{"vcpus":20,"memory_mb":1}}}`)
	if p := problemOf(t, rec); rec.Code != http.StatusTooManyRequests || p.Reason != fault.Overloaded || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v, Retry-After %q", rec.Code, p, rec.Header().Get("Retry-After"))
	}
}

// A repeat finds its claim in a cell that cannot take it over now. It makes no other claim elsewhere.
func TestRepeatWaitsForAFullQueue(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 9)), newCell(2, testHost(2, 1))}, nil)
	req := ask(1, 1)
	req.RequestId = "again"
	first := w.choose(req).GetDestinations()[0].GetSelected()
	w.cells[0].full(0)
	if e := w.refused(req, fault.Overloaded); e.RetryAfter == 0 {
		t.Errorf("%v: no time to wait", e)
	}
	if n := w.liveClaims(); n != 1 {
		t.Errorf("%d claims", n)
	}
	if err := w.confirm(first, testUUID(0x1, 1)); fault.KindOf(rpc.FromStatus(err)) != fault.Overloaded {
		t.Errorf("confirm: %v", err)
	}
	w.cells[0].hook(nil, nil)
	if again := w.choose(req).GetDestinations()[0].GetSelected(); again.GetClaimId() != first.GetClaimId() {
		t.Errorf("claim %s, then %s", first.GetClaimId(), again.GetClaimId())
	}
}

// If another claim of the request is in doubt, the error is OUTCOME_UNKNOWN and not OVERLOADED.
func TestDoubtOutweighsAFullQueue(t *testing.T) {
	w := start(t, []*testCell{newCell(1, testHost(1, 9)), newCell(2, testHost(2, 5))}, nil)
	req := ask(1, 1)
	req.GetRequestSpec().Flavor.Vcpus = 20
	w.cells[1].full(time.Second)
	w.cells[0].hook(nil, func(method string, _ any) error {
		if method == "ClaimBatch" {
			return status.Error(codes.DataLoss, "the reply is lost")
		}
		return nil
	})
	w.refused(req, fault.OutcomeUnknown)
}
