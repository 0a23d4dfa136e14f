package replica

import (
	"testing"

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
		meanwhile func(r *Rows, apply func(*shard.Claim))
		live      bool
	}{
		"nothing": {meanwhile: func(*Rows, func(*shard.Claim)) {}, live: true},
		"it ended": {meanwhile: func(_ *Rows, apply func(*shard.Claim)) {
			apply(row(shard.Released, 2))
		}},
		"it ended, by a clock that is behind": {meanwhile: func(_ *Rows, apply func(*shard.Claim)) {
			apply(row(shard.Expired, 0))
		}},
		"it ended, and the journal was read to its end more than once": {meanwhile: func(r *Rows, apply func(*shard.Claim)) {
			apply(row(shard.Released, 2))
			r.forgetEnded()
			r.forgetEnded()
		}},
		"the shard was loaded again": {meanwhile: func(r *Rows, _ func(*shard.Claim)) { r.missedEnds() }},
		"another audit began":        {meanwhile: func(r *Rows, _ func(*shard.Claim)) { r.WatchEnds() }},
		"a newer row of it came":     {meanwhile: func(_ *Rows, apply func(*shard.Claim)) { apply(row(shard.Confirmed, 3)) }, live: true},
		"a newer row came, and it ended": {meanwhile: func(_ *Rows, apply func(*shard.Claim)) {
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
			again := HostReread{Host: hostA, Since: r.WatchEnds(), Put: [][2]*shard.Claim{{row(shard.Pending, 1), nil}}}
			c.meanwhile(r, apply)
			before := r.Claim("k1")
			r.Reread(&again, newDirty())
			after := r.Claim("k1")
			if (after != nil) != c.live || before != nil && after != before || again.Did != (after != before) {
				t.Errorf("the claim was %+v and is %+v in the table, did %v", before, after, again.Did)
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
	old := r.Host(hostA)
	again := HostReread{Host: hostA, Seen: old, UsageToo: true, Usage: &shard.Usage{HostUUID: hostA, Generation: 4, Pending: 2}}
	r.Reread(&again, newDirty())
	if row := r.Host(hostA); row.Host.Generation != 5 || row.Usage.Generation != 4 || !again.Did {
		t.Errorf("the table has host %+v, usage %+v", row.Host, row.Usage)
	}
}
