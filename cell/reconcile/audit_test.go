package reconcile

import (
	"fmt"
	"slices"
	"testing"

	"cellgate/cell/replica"
	"cellgate/shard"
)

func hostUUID(n int) string { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n) }

// All hosts of a large cell are audited in turn.
func TestAuditor_ManyHosts_AuditedInTurn(t *testing.T) {
	const hosts = auditsEach + 100
	rows := make([]*replica.HostRow, hosts)
	for n := range rows {
		rows[n] = &replica.HostRow{Host: &shard.Host{UUID: hostUUID(n)}}
	}
	a, times := &auditor{}, map[string]int{}
	for range 2 {
		list := a.choose(rows)
		if len(list) != auditsEach {
			t.Fatalf("%d hosts are audited", len(list))
		}
		for _, uuid := range list {
			times[uuid]++
		}
	}
	if len(times) != hosts {
		t.Errorf("%d of %d hosts are audited", len(times), hosts)
	}
	few := (&auditor{}).choose(rows[:3])
	if !slices.Equal(few, []string{hostUUID(0), hostUUID(1), hostUUID(2)}) {
		t.Errorf("of three hosts %v are audited", few)
	}
	if none := (&auditor{}).choose(nil); len(none) != 0 {
		t.Errorf("of none %v are audited", none)
	}
}
