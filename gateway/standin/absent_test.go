package standin

import (
	"testing"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// While hosts cannot be imported those alone are proposed that the shard has; rows that
// come and go meanwhile count.
func TestHostsThatTheShardLacks(t *testing.T) {
	w := newWorld(t, 3)
	w.update()
	absent := func(want int, when string) {
		t.Helper()
		if got := w.Absent(); got != want {
			t.Errorf("%s: %d hosts are absent, want %d", when, got, want)
		}
	}
	absent(0, "at first")
	w.OnlyThere([]string{hostID(1).String(), hostID(9).String()})
	w.passed(1, 1, "one of three is there")
	absent(2, "one of three is there")
	w.add(3)
	w.update()
	w.passed(1, 1, "a row came")
	absent(3, "a row came")
	w.change(0).gone = true
	w.update()
	absent(2, "a row went")
	w.OnlyThere([]string{})
	w.Withheld([]*cellv1.WithheldHost{{HostUuid: hostID(3).String(), Why: "in maintenance: a kernel"}})
	if got := w.rejects(1); got["ComputeFilter "+absentWhy] != 2 || got["ComputeFilter in maintenance: a kernel"] != 1 {
		t.Errorf("none is there: rejected are %v", got)
	}
	absent(3, "none is there")
	w.AllThere()
	w.passed(1, 2, "all can be imported")
	absent(0, "all can be imported")
}
