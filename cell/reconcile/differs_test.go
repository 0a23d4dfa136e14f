package reconcile

import (
	"slices"
	"testing"
	"time"

	"cellgate/cell/replica"
	"cellgate/shard"
)

// Of a host whose own row is newer in the table than the shard's was, only the usage differs.
func TestDifferences_UsageOlderThanTheShards_IsTheOnlyOne(t *testing.T) {
	old := &replica.HostRow{Host: &shard.Host{UUID: hostA, Generation: 5}, Usage: &shard.Usage{HostUUID: hostA, Generation: 3, Pending: 1}}
	before := replica.HostView{Row: &replica.HostRow{Host: &shard.Host{UUID: hostA, Generation: 4}, Usage: old.Usage}}
	found := &shard.Audited{Host: &shard.Host{UUID: hostA, Generation: 4}, Usage: &shard.Usage{HostUUID: hostA, Generation: 4, Pending: 2}}
	list := rowComparison{host: hostA, before: before, after: replica.HostView{Row: old}, found: found}.differences()
	if len(list) != 1 || list[0].what != usageOther {
		t.Fatalf("differ: %+v", list)
	}
}

// The same claim that is missing twice is one difference; another row of it is another.
func TestOnlyTheSameRowDiffersTwice(t *testing.T) {
	one := &shard.Claim{ClaimID: "k1", State: shard.Pending, UpdatedAt: at(1)}
	same := *one
	later := *one
	later.UpdatedAt = at(1).Add(time.Microsecond)
	confirmed := *one
	confirmed.State = shard.Confirmed
	if ofClaim(claimOther, one) != ofClaim(claimOther, &same) {
		t.Error("the same row is another difference")
	}
	for _, c := range []*shard.Claim{&later, &confirmed} {
		if ofClaim(claimOther, one) == ofClaim(claimOther, c) {
			t.Errorf("%+v is the same difference", c)
		}
	}
}

// All hosts of a large cell are audited in turn, those that differed at once again.
func TestAuditor_ManyHosts_AuditedInTurn(t *testing.T) {
	const hosts = auditsEach + 100
	rows := make([]*replica.HostRow, hosts)
	for n := range rows {
		rows[n] = &replica.HostRow{Host: &shard.Host{UUID: hostUUID(n)}}
	}
	a := &auditor{suspects: map[string]map[difference]bool{hostUUID(3): {}}}
	times := map[string]int{}
	for range 2 {
		list := a.choose(rows)
		if len(list) != auditsEach || list[0] != hostUUID(3) {
			t.Fatalf("%d hosts are audited, the first is %s", len(list), list[0])
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
}
