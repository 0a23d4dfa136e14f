package cell

import (
	"testing"
	"time"

	"cellgate/shard"
)

// What a table takes from the shard in an audit, when it changes before it does.
func TestARereadLeavesWhatChangedSince(t *testing.T) {
	row := func(state shard.ClaimState, second int) *shard.Claim {
		return &shard.Claim{ClaimID: "k1", ConsumerUUID: consumerUUID(1), HostUUID: hostA, State: state, UpdatedAt: at(second)}
	}
	for name, c := range map[string]struct {
		// meanwhile is between the shard's reading, of a claim that the table lacks, and the
		// table's taking.
		meanwhile func(r *rows, apply func(*shard.Claim))
		live      bool
	}{
		"nothing": {meanwhile: func(*rows, func(*shard.Claim)) {}, live: true},
		"it ended": {meanwhile: func(_ *rows, apply func(*shard.Claim)) {
			apply(row(shard.Released, 2))
		}},
		"it ended, by a clock that is behind": {meanwhile: func(_ *rows, apply func(*shard.Claim)) {
			apply(row(shard.Expired, 0))
		}},
		"it ended, and the journal was read to its end more than once": {meanwhile: func(r *rows, apply func(*shard.Claim)) {
			apply(row(shard.Released, 2))
			r.caughtUp()
			r.caughtUp()
		}},
		"the shard was loaded again": {meanwhile: func(r *rows, _ func(*shard.Claim)) { r.missedEnds() }},
		"another audit began":        {meanwhile: func(r *rows, _ func(*shard.Claim)) { r.watchEnds() }},
		"a newer row of it came":     {meanwhile: func(_ *rows, apply func(*shard.Claim)) { apply(row(shard.Confirmed, 3)) }, live: true},
		"a newer row came, and it ended": {meanwhile: func(_ *rows, apply func(*shard.Claim)) {
			apply(row(shard.Confirmed, 3))
			apply(row(shard.Released, 4))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRows()
			apply := func(c *shard.Claim) {
				if err := r.apply([]shard.Change{{Claim: c}}, newDirty()); err != nil {
					t.Fatal(err)
				}
			}
			again := reread{host: hostA, since: r.watchEnds(), put: [][2]*shard.Claim{{row(shard.Pending, 1), nil}}}
			c.meanwhile(r, apply)
			before := r.claim("k1")
			r.reread(&again, newDirty())
			after := r.claim("k1")
			if (after != nil) != c.live || before != nil && after != before || again.did != (after != before) {
				t.Errorf("the claim was %+v and is %+v in the table, did %v", before, after, again.did)
			}
		})
	}
}

// Of a host of which one row differs the other stays, which may be newer than the shard's
// was when it was read.
func TestARereadTakesOnlyTheRowThatDiffers(t *testing.T) {
	r := newRows()
	changes := []shard.Change{{Host: &shard.Host{UUID: hostA, Generation: 5}}, {Usage: &shard.Usage{HostUUID: hostA, Generation: 3, Pending: 1}}}
	if err := r.apply(changes, newDirty()); err != nil {
		t.Fatal(err)
	}
	old := r.host(hostA)
	before := view{row: &hostRow{host: &shard.Host{UUID: hostA, Generation: 4}, usage: old.usage}}
	found := &shard.Audited{Host: &shard.Host{UUID: hostA, Generation: 4}, Usage: &shard.Usage{HostUUID: hostA, Generation: 4, Pending: 2}}
	list := compared{host: hostA, before: before, after: view{row: old}, found: found}.differences()
	if len(list) != 1 || list[0].what != usageOther {
		t.Fatalf("differ: %+v", list)
	}
	again := reread{host: hostA}
	list[0].take(&again)
	r.reread(&again, newDirty())
	if row := r.host(hostA); row.host.Generation != 5 || row.usage.Generation != 4 || !again.did {
		t.Errorf("the table has host %+v, usage %+v", row.host, row.usage)
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
