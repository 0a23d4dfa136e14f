package gateway

import (
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// TestARejectedClaimGoesToTheNextCandidate, and the decision shows where it was first.
func TestARejectedClaimGoesToTheNextCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*fakeCell{newFakeCell(1, testHost(1, 1), testHost(2, 1)), newFakeCell(2, testHost(3, 1))}, nil)
		try := ask(1, 1)
		try.DryRun, try.RequestId = true, "r1" // the same order of equal hosts
		first := w.choose(try).GetDestinations()[0].GetSelected()
		for _, c := range w.cells {
			if c.name == first.GetCell() {
				c.rejects = map[string]string{first.GetComputeNodeUuid(): "NO_ROOM"}
			}
		}
		req := ask(1, 1)
		req.RequestId, req.ReturnAlternates = "r1", true
		resp := w.choose(req)
		got := resp.GetDestinations()[0].GetSelected()
		if got.GetComputeNodeUuid() == first.GetComputeNodeUuid() || !got.GetClaimed() {
			t.Fatalf("selected %v", got)
		}
		for _, a := range resp.GetDestinations()[0].GetAlternates() {
			if a.GetComputeNodeUuid() == first.GetComputeNodeUuid() {
				t.Errorf("the host that rejected the claim is an alternate")
			}
		}
		d := w.written()[resp.GetDecisionId()]
		if len(d.GetRejectedClaims()) != 1 || d.GetLostRaces() != 0 {
			t.Fatalf("the decision has %v, and lost %d races", d.GetRejectedClaims(), d.GetLostRaces())
		}
		r := d.GetRejectedClaims()[0]
		if r.GetHostUuid() != first.GetComputeNodeUuid() || r.GetServiceHost() != first.GetServiceHost() || r.GetCell() != first.GetCell() ||
			r.GetReason() != "NO_ROOM" || r.GetMessage() == "" || r.GetClaimId() == "" || r.GetInstanceUuid() != testUUID(0x1, 1) {
			t.Errorf("rejected: %v", r)
		}
		// Read again, it has the claim as it is now.
		read, err := w.decision(resp.GetDecisionId())
		if err != nil || len(read.GetClaims()) != 1 || read.GetClaims()[0].GetClaimId() != got.GetClaimId() || read.GetClaims()[0].GetState() != cellgatev1.ClaimState_PENDING {
			t.Errorf("read: %v, %v", read, err)
		}
	})
}

// TestAHostThatRejectsIsNotChosenAgain: when all do, no host is left.
func TestAHostThatRejectsIsNotChosenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*fakeCell{newFakeCell(1, testHost(1, 1), testHost(2, 1))}, nil)
		w.cells[0].rejects = map[string]string{testUUID(0xa, 1): "NO_ROOM", testUUID(0xa, 2): "DISABLED"}
		e := w.refused(ask(1, 1), fault.NoValidHost)
		d := w.written()[e.Metadata["decision_id"]]
		if len(d.GetRejectedClaims()) != 2 {
			t.Errorf("rejected: %v", d.GetRejectedClaims())
		}
		if n := w.liveClaims(); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}
