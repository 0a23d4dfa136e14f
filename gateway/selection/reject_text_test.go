package selection

import (
	"strings"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

func TestRejectsText_ManyReasons_CountsAddUp(t *testing.T) {
	rejects := []*cellgatev1.RejectCount{
		{Filter: schedule.ComputeFilter, Detail: "disabled", Hosts: 148},
		{Filter: schedule.TraitFilter, Detail: "HW_CPU_X86_AVX512F", Hosts: 1640},
		{Filter: schedule.ResourceFilter, Detail: "MEMORY_MB", Hosts: 1},
	}
	if got, want := RejectsText(rejects), "1,640 lack trait HW_CPU_X86_AVX512F, 148 are disabled, 1 has too little MEMORY_MB"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for i := range 20 {
		rejects = append(rejects, &cellgatev1.RejectCount{Filter: "F" + string(rune('a'+i)), Hosts: 2})
	}
	got := RejectsText(rejects)
	if !strings.HasSuffix(got, ", 25 for other reasons") || strings.Count(got, ", ") != maxReasons {
		t.Errorf("got %q", got)
	}
}

// A caller that may know nothing of hosts learns no counts, no names, and no actions of operators.
func TestTenantMessage_OperatorsReasons_AreLeftOut(t *testing.T) {
	d := &cellgatev1.NoValidHost{
		Hosts: 3000, SmallestChange: "ask for at most 900 MEMORY_MB (asked 1024)", SmallestOperatorChange: "host host7 of cell2: enable it",
		Rejects: []*cellgatev1.RejectCount{
			{Filter: schedule.ComputeFilter, Detail: "kernel upgrade of rack 7", Hosts: 148},
			{Filter: schedule.TraitFilter, Detail: "CUSTOM_GOLD", Hosts: 1640},
			{Filter: schedule.TraitFilter, Detail: "!CUSTOM_QUARANTINED", Hosts: 12},
			{Filter: schedule.ResourceFilter, Detail: "MEMORY_MB", Hosts: 1200},
		},
		Cells: []*cellgatev1.CellReport{{Cell: "cell2"}},
	}
	want := "No valid host was found. No available host has all that was asked for; what hosts lack: trait CUSTOM_GOLD, " +
		"room for the MEMORY_MB. It would fit if you ask for at most 900 MEMORY_MB (asked 1024)."
	if got := tenantMessage(d); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Operators can free room only up to what the empty host has.
func TestOperatorsFreeNoMoreThanAHostHas(t *testing.T) {
	for _, tt := range []struct {
		miss *cellgatev1.Miss
		too  bool
	}{
		{&cellgatev1.Miss{Filter: schedule.ResourceFilter, Detail: "VCPU", Asked: 64, Most: 2, MostWhenEmpty: 64}, false},
		{&cellgatev1.Miss{Filter: schedule.ResourceFilter, Detail: "VCPU", Asked: 9999, Most: 2, MostWhenEmpty: 64, Changeable: true}, true},
		{&cellgatev1.Miss{Filter: schedule.ComputeFilter, Detail: "disabled"}, false},
		{&cellgatev1.Miss{Filter: schedule.AffinityFilter, Changeable: true}, true},
	} {
		if got := asksTooMuch(tt.miss); got != tt.too {
			t.Errorf("%v: %v", tt.miss, got)
		}
	}
}
