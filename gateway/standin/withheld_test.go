package standin

import (
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// What operators want of hosts in the cell counts whatever the rows say, until it is
// taken back; also of a host whose row comes later.
func TestHostsThatOperatorsKeepInstancesFrom(t *testing.T) {
	w := newWorld(t, 3)
	w.update()
	word := func(n int, why string, down bool) *cellv1.WithheldHost {
		return &cellv1.WithheldHost{HostUuid: hostID(n).String(), Why: why, Down: down}
	}
	w.Withheld([]*cellv1.WithheldHost{word(0, "in maintenance: a kernel", false), word(3, "disabled by operator: new", false)})
	w.passed(1, 2, "one in maintenance")
	if s := w.Summary().GetTotals(); s.GetHostsUp() != 2 || s.GetHostsWithheld() != 1 {
		t.Errorf("the totals are %v", s)
	}
	w.add(3)
	w.update()
	w.passed(1, 2, "a row that comes later")
	w.Withheld([]*cellv1.WithheldHost{word(0, "in maintenance: a kernel", false), word(1, "forced down by operator: fenced", true), word(2, "in maintenance: a kernel", false), word(3, "disabled by operator: new", false)})
	got := w.rejects(1)
	for reason, want := range map[string]int{
		"ComputeFilter in maintenance: a kernel": 2, "ComputeFilter forced down by operator: fenced": 1, "ComputeFilter disabled by operator: new": 1,
	} {
		if got[reason] != want || len(got) != 3 {
			t.Errorf("rejected are %v, want %d for %s", got, want, reason)
		}
	}
	w.update()
	w.rejects(1)
	w.Withheld(nil)
	w.passed(1, 4, "taken back")
	if s := w.Summary().GetTotals(); s.GetHostsUp() != 4 || s.GetHostsWithheld() != 0 {
		t.Errorf("the totals are %v", s)
	}
}
