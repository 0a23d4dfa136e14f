package gateway

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// A claim that a host rejects goes to the next candidate, and the decision shows the host that rejected it.
func TestARejectedClaimGoesToTheNextCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 1), testHost(2, 1)).verifies(), newCell(2, testHost(3, 1)).verifies()}, nil)
		try := ask(1, 1)
		try.DryRun, try.RequestId = true, "r1" // the same order of equal hosts
		first := w.choose(try).GetDestinations()[0].GetSelected()
		for _, c := range w.cells {
			for _, h := range c.hosts {
				if h.UUID.String() == first.GetComputeNodeUuid() {
					c.agent(h, agentv1.Verdict_NO_ROOM)
				}
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
		// A decision that is read again has the claim's newest state.
		read, err := w.decision(resp.GetDecisionId())
		if err != nil || len(read.GetClaims()) != 1 || read.GetClaims()[0].GetClaimId() != got.GetClaimId() || read.GetClaims()[0].GetState() != cellgatev1.ClaimState_PENDING {
			t.Errorf("read: %v, %v", read, err)
		}
	})
}

// A host that rejects an instance's claim is not chosen again. If all hosts reject it, no host is left.
func TestAHostThatRejectsIsNotChosenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, []*testCell{newCell(1, testHost(1, 2), testHost(2, 1), testHost(3, 3)).verifies()}, nil)
		w.cells[0].agent(w.cells[0].hosts[0], agentv1.Verdict_NO_ROOM)
		w.cells[0].agent(w.cells[0].hosts[1], agentv1.Verdict_DISABLED)
		req := ask(1, 1)
		req.GetRequestSpec().IgnoreHosts = []string{"host003"}
		e := w.refused(req, fault.NoValidHost)
		d := w.written()[e.Metadata["decision_id"]]
		if len(d.GetRejectedClaims()) != 2 {
			t.Errorf("rejected: %v", d.GetRejectedClaims())
		}
		// The request ignores one host, and the error has the reasons of the others.
		want := map[string]int32{"HostFilter ignored": 1, "HostVerdict NO_ROOM": 1, "HostVerdict DISABLED": 1}
		if got := rejectsOf(t, e); !maps.Equal(got, want) || !strings.Contains(e.Message, "1 refused the claim (NO_ROOM)") {
			t.Errorf("rejected by %v: %q", got, e.Message)
		}
		if got := rejectCountsOf(d.GetCells()[0].GetRejects()); !maps.Equal(got, want) {
			t.Errorf("its cell reports the rejects %v", got)
		}
		if n := w.liveClaims(); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}

func TestSelect_HostRejectsClaims_OtherHostsOfItsServiceAreChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := []schedule.Host{testHost(1, 8), testHost(2, 4), testHost(3, 1)} // by weight
		nodes[0].ServiceHost, nodes[1].ServiceHost = "ironic", "ironic"
		w := start(t, []*testCell{newCell(1, nodes...).verifies()}, nil)
		w.cells[0].agent(nodes[0], agentv1.Verdict_NO_ROOM)
		resp := w.choose(ask(1, 3))
		for _, d := range resp.GetDestinations() {
			if got, want := d.GetSelected().GetComputeNodeUuid(), testUUID(0xa, 2); got != want {
				t.Errorf("chosen is %s, want %s", got, want)
			}
		}
		if d := w.written()[resp.GetDecisionId()]; len(d.GetRejectedClaims()) != 3 {
			t.Errorf("rejected are %v", d.GetRejectedClaims())
		}
	})
}

func rejectsOf(t *testing.T, e *fault.Error) map[string]int32 {
	t.Helper()
	d, ok := e.Detail.(*cellgatev1.NoValidHost)
	if !ok {
		t.Fatalf("the detail is %v", e.Detail)
	}
	return rejectCountsOf(d.GetRejects())
}

func rejectCountsOf(counts []*cellgatev1.RejectCount) map[string]int32 {
	out := map[string]int32{}
	for _, r := range counts {
		out[r.GetFilter()+" "+r.GetDetail()] = r.GetHosts()
	}
	return out
}
