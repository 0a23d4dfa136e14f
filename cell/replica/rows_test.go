package replica

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"cellgate/shard"
)

// Rows of several lanes may arrive in any order and more than once. The newest of each stays.
func TestRowsComeToTheSameStateInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var history []shard.Change
		newest := map[string]*shard.Claim{}
		states := []shard.ClaimState{shard.Pending, shard.Confirmed, shard.Released, shard.Expired}
		for n := range rapid.IntRange(1, 30).Draw(t, "changes") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "claim")
			c := &shard.Claim{
				ClaimID: id, ConsumerUUID: "consumer of " + id, UpdatedAt: at(n + 1), HostUUID: hostA,
				State: rapid.SampledFrom(states).Draw(t, "state"),
			}
			history = append(history, shard.Change{Claim: c})
			newest[id] = c
		}
		generation := map[string]int64{}
		for n := range rapid.IntRange(0, 10).Draw(t, "host rows") {
			uuid := rapid.SampledFrom([]string{hostA, hostB}).Draw(t, "host")
			generation[uuid] = int64(n + 1)
			history = append(history,
				shard.Change{Host: &shard.Host{UUID: uuid, ServiceHost: "a", Generation: int64(n + 1)}},
				shard.Change{Usage: &shard.Usage{HostUUID: uuid, Generation: int64(n + 1)}},
				shard.Change{AdminState: &shard.AdminState{HostUUID: uuid, Generation: int64(n + 1), State: shard.ConditionDisabled}},
				shard.Change{Gate: &shard.Gate{Revision: int64(n + 1)}})
		}
		seen := append([]shard.Change{}, history...)
		seen = append(seen, history[:rapid.IntRange(0, len(history)).Draw(t, "again")]...)
		seed := rapid.Uint64().Draw(t, "order")
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(seen), func(i, j int) { seen[i], seen[j] = seen[j], seen[i] })

		r := newRows()
		for _, c := range seen {
			if err := r.apply([]shard.Change{c}, newDirty()); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range newest {
			got := r.Claim(id)
			if want.State.Live() && got != want || !want.State.Live() && got != nil {
				t.Errorf("claim %s is %+v, want %+v", id, got, want)
			}
			if found := r.ClaimsOfConsumers([]string{want.ConsumerUUID}); (len(found) == 1) != want.State.Live() {
				t.Errorf("the consumer of claim %s (%s) has %d claims", id, want.State, len(found))
			}
		}
		for uuid, want := range generation {
			row := r.Host(uuid)
			if row.Host.Generation != want || row.Usage.Generation != want || row.Admin.Generation != want {
				t.Errorf("host %s is at %d, its usage at %d, its admin state at %d, want %d", uuid, row.Host.Generation, row.Usage.Generation, row.Admin.Generation, want)
			}
			if r.GateRow().Revision < want {
				t.Errorf("the gate is at %d, want %d or more", r.GateRow().Revision, want)
			}
		}
	})
}

func TestRowsForgetEndedClaimsOnceTheJournalWasReadAfterThem(t *testing.T) {
	r := newRows()
	old := &shard.Claim{ClaimID: "a", ConsumerUUID: "c", State: shard.Pending, UpdatedAt: at(1)}
	gone := &shard.Claim{ClaimID: "a", ConsumerUUID: "c", State: shard.Released, UpdatedAt: at(2)}
	apply := func(c *shard.Claim) {
		if err := r.apply([]shard.Change{{Claim: c}}, newDirty()); err != nil {
			t.Fatal(err)
		}
	}
	apply(gone)
	r.forgetEnded() // the read may have begun before the claim ended
	apply(old)
	if r.Claim("a") != nil {
		t.Error("an older row brought an ended claim back")
	}
	r.forgetEnded()
	if n := len(r.ended) + len(r.endedBefore); n != 0 {
		t.Errorf("%d ended claims are remembered", n)
	}
}
