package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

func TestFindingsAreShown(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	m := &cellgatev1.ListFindingsResponse{
		Findings: []*cellgatev1.Finding{
			{Kind: cellgatev1.Finding_ORPHANED_CLAIM, Cell: "cell1", ServiceHost: "host-1", ConsumerUuid: "c0000000-0000-4000-8000-000000000001", ClaimId: "k1", Detail: "gone", Since: at, RepairedAt: at, Repair: "released"},
			{Kind: cellgatev1.Finding_OVERCOMMITTED, Cell: "cell1", ServiceHost: "host-2", ResourceClass: "VCPU", Detail: "9 are in use of 8, which is a lot of them", Since: at},
		},
		Cells: []*cellgatev1.ReconciledCell{
			{Cell: "cell1", LookedAt: at, Hosts: 3, HostsCompared: 2, Cut: true},
			{Cell: "cell2", Error: "127.0.0.1:1: it does not answer"},
		},
	}
	var out page
	showFindings(&out, m)
	want := `KIND            CELL   HOST    INSTANCE, OR WHAT                     SINCE
orphaned_claim  cell1  host-1  c0000000-0000-4000-8000-000000000001  01-02 03:04
overcommitted   cell1  host-2  VCPU: 9 are in use of 8, which is …   01-02 03:04
cell1: 2 of 3 hosts had reports to compare, 2026-01-02T03:04:05Z; there are more findings
cell2: has not been looked at yet; no answer of 127.0.0.1:1: it does not answer
`
	if out.String() != want {
		t.Errorf("shown as\n%swant\n%s", out.String(), want)
	}
	out = page{wide: true}
	if showFindings(&out, m); !strings.Contains(out.String(), "  k1     gone  ") || !strings.Contains(out.String(), "2026-01-02T03:04:05Z released\n") {
		t.Errorf("wide, shown as\n%s", out.String())
	}
	if got := byKind([]*cellgatev1.Finding{{Kind: cellgatev1.Finding_OVERCOMMITTED}, {Kind: cellgatev1.Finding_ORPHANED_CLAIM}, {Kind: cellgatev1.Finding_ORPHANED_CLAIM, RepairedAt: at}}); got != "1 orphaned_claim, 1 overcommitted" {
		t.Errorf("counted as %q", got)
	}
}

// The command accepts only existing kinds, and names them.
func TestFindingsOfAKind(t *testing.T) {
	out, errs := &strings.Builder{}, &strings.Builder{}
	if status := run(t.Context(), []string{"findings", "--kind", "leak"}, terminal{in: strings.NewReader(""), out: out, err: errs}); status != 2 || !strings.Contains(errs.String(), "orphaned_claim, unclaimed_instance") {
		t.Errorf("status %d: %s", status, errs)
	}
	if kinds, counted := findingKinds(), telemetry.FindingKinds(); len(kinds) != len(cellgatev1.Finding_Kind_name)-1 || !slices.Equal(kinds, counted) {
		t.Errorf("kinds %v, metrics count %v", kinds, counted)
	}
}
