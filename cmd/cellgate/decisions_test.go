package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// A decision shows who rejected its claims and which host each is on, also after an alternate was
// claimed.
func TestADecisionShowsWhoRejectedItsClaimsAndWhereTheyAre(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	no := &cellgatev1.ClaimVerdict{Outcome: "REJECTED", Reason: "NO_ROOM", Detail: "2 VCPU asked for, 0 of 8 free", At: at}
	var out page
	showDecision(&out, &cellgatev1.Decision{
		DecisionId: "d1", DecidedAt: at, Exact: true,
		Destinations: []*cellgatev1.Destinations{
			{InstanceUuid: "i1", Selected: &cellgatev1.Selection{
				Cell: "cell1", ServiceHost: "h1", ClaimId: "c1", Claimed: true, ClaimState: cellgatev1.ClaimState_PENDING,
			}},
			{InstanceUuid: "i2", Selected: &cellgatev1.Selection{Cell: "cell2", ServiceHost: "h9", ClaimId: "c2", Claimed: true}},
		},
		RejectedClaims: []*cellgatev1.RejectedClaim{{InstanceUuid: "i1", Cell: "cell1", ServiceHost: "h0", Reason: "NO_PCI", Message: "none"}},
		Claims: []*cellgatev1.DecisionClaim{{
			InstanceUuid: "i1", ClaimId: "c1", Cell: "cell1", ServiceHost: "h3", State: cellgatev1.ClaimState_CONFIRMED, Verdict: &cellgatev1.ClaimVerdict{Outcome: "OK"},
			Rejections: []*cellgatev1.ClaimRejection{{ServiceHost: "h1", Verdict: no}, {ServiceHost: "h2", Verdict: no}},
		}},
	})
	rows := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"i1 cell1 h0 before the answer NO_PCI: none",
		"i1 cell1 h1 2026-01-02T03:04:05Z NO_ROOM: 2 VCPU asked for, 0 of 8 free",
		"i1 cell1 h2 2026-01-02T03:04:05Z NO_ROOM: 2 VCPU asked for, 0 of 8 free",
		"i1 cell1 h3 CONFIRMED c1",
		"i2 cell2 - not known: its cell does not say c2",
	} {
		if !rows[want] {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
}

// A list filtered by a reason shows that reason. Other lists show what rejected the most hosts.
func TestListDecisions_ByReason_ShowsTheReasonAskedFor(t *testing.T) {
	d := &cellgatev1.Decision{DecisionId: "d1", Refusal: "NO_VALID_HOST", Cells: []*cellgatev1.CellReport{{Rejects: []*cellgatev1.RejectCount{
		{Filter: "ComputeFilter", Hosts: 70}, {Filter: "ResourceFilter", Detail: "MEMORY_MB", Hosts: 2}, {Filter: "ResourceFilter", Detail: "VCPU", Hosts: 3},
	}}}}
	for reason, want := range map[string]string{
		"": "ComputeFilter", "NO_VALID_HOST": "ComputeFilter", "MEMORY_MB": "ResourceFilter(MEMORY_MB)", "ResourceFilter": "ResourceFilter(VCPU)",
		"NO_VALID_HOST ResourceFilter(MEMORY_MB)": "ResourceFilter(MEMORY_MB)", "ResourceFilter(MEMORY_MB)": "ResourceFilter(MEMORY_MB)",
	} {
		var out page
		showDecisions(&out, &cellgatev1.ListDecisionsResponse{Decisions: []*cellgatev1.Decision{d}}, reason)
		if !strings.Contains(out.String(), "NO_VALID_HOST "+want+"\n") {
			t.Errorf("--reason %q does not show %s:\n%s", reason, want, out.String())
		}
	}
}

// A long refusal is broken into lines that fit a terminal.
func TestGetDecision_LongRefusal_FitsTheTerminal(t *testing.T) {
	out := page{width: pageWidth}
	showDecision(&out, &cellgatev1.Decision{DecisionId: "d1", Refusal: "NO_VALID_HOST", Message: strings.Repeat("1,000 hosts lack trait HW_CPU_X86_AVX512F, ", 12)})
	for line := range strings.Lines(out.String()) {
		if n := len([]rune(line)) - 1; n > pageWidth {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}
