package cell

import (
	"testing"
	"time"

	"cellgate/cell/replica"
	"cellgate/shard"
)

// Of a host of which one row differs the other is not taken: the table's may be newer than the
// shard's was when it was read.
func TestDifferences_UsageDiffers_TakesTheUsageAlone(t *testing.T) {
	old := &replica.HostRow{Host: &shard.Host{UUID: hostA, Generation: 5}, Usage: &shard.Usage{HostUUID: hostA, Generation: 3, Pending: 1}}
	before := replica.HostView{Row: &replica.HostRow{Host: &shard.Host{UUID: hostA, Generation: 4}, Usage: old.Usage}}
	found := &shard.Audited{Host: &shard.Host{UUID: hostA, Generation: 4}, Usage: &shard.Usage{HostUUID: hostA, Generation: 4, Pending: 2}}
	list := compared{host: hostA, before: before, after: replica.HostView{Row: old}, found: found}.differences()
	if len(list) != 1 || list[0].what != usageOther {
		t.Fatalf("differ: %+v", list)
	}
	again := replica.HostReread{Host: hostA}
	list[0].take(&again)
	if again.Row != nil || !again.UsageToo || again.Usage != found.Usage || again.Seen != old {
		t.Errorf("it takes %+v", again)
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
