package importer

import (
	"testing"
	"time"
)

// A compute node that is registered again with another uuid, at the same host and node, gets the claims of its
// instances once they have ended on the old one. Until then all usage of its row is unaccounted for there. No
// instance is without both in between.
func TestAComputeNodeThatComesBackWithAnotherUUID(t *testing.T) {
	for _, sameIncarnation := range []bool{true, false} {
		n, cell := newNova(1), newCell()
		n.on(1, 1)
		n.on(2, 1)
		n.hosts[1].View.VCPUsUsed = 2
		n.touch(1)
		n.now = n.now.Add(time.Hour)
		m := importerOf(t, n)
		step(t, m, n, cell)
		cell.claims[instanceID(2)].adopted, cell.claims[instanceID(2)].seen = false, true // a request's, confirmed
		again := *n.hosts[1]
		again.NodeID, again.UUID = 2, mustID(hostID(2))
		delete(n.hosts, 1)
		n.hosts[2] = &again
		n.touch(2)
		if !sameIncarnation {
			m = importerOf(t, n)
			n.now = n.now.Add(time.Hour)
		}
		if r := step(t, m, n, cell); r.Released != 0 || r.ClaimedElsewhere != 2 {
			t.Errorf("same Importer %v: the first step: %+v", sameIncarnation, r)
		}
		if got := unaccounted(cell, 2, vcpu); got != 2 {
			t.Errorf("same Importer %v: %d VCPU are unaccounted for, which the other uuid holds", sameIncarnation, got)
		}
		for k := 0; k < 3; k++ {
			if step(t, m, n, cell); cell.claims[instanceID(1)] == nil && unaccounted(cell, 2, vcpu) == 0 {
				t.Errorf("same Importer %v: step %d: nobody holds an instance", sameIncarnation, k)
			}
		}
		step(t, m, n, cell)
		for _, i := range []int64{1, 2} {
			if c := cell.claims[instanceID(i)]; c == nil || c.host != hostID(2) {
				t.Errorf("same Importer %v: the claim of instance %d is %+v", sameIncarnation, i, c)
			}
		}
		if got := unaccounted(cell, 2, vcpu); got != 0 {
			t.Errorf("same Importer %v: %d VCPU are unaccounted for beside the claims", sameIncarnation, got)
		}
		m.Again()
		n.now = n.now.Add(time.Hour)
		for range 3 {
			if r := step(t, m, n, cell); r.Adopted+r.Released+r.ClaimedElsewhere != 0 {
				t.Errorf("same Importer %v: afterwards: %+v", sameIncarnation, r)
			}
		}
	}
}

// When this gateway takes over again, another one may have sent instances that this gateway has not seen twice. Their
// hosts wait a pass, so that no claim ends.
func TestTakingOverAgainReleasesNothing(t *testing.T) {
	n, cell := newNova(1), newCell()
	m, other := importerOf(t, n), importerOf(t, n)
	steps(t, m, n, cell)
	n.on(1, 1)
	steps(t, other, n, cell)
	if cell.claims[instanceID(1)] == nil {
		t.Fatal("the other gateway did not adopt it")
	}
	m.Again()
	for range 3 {
		if r := step(t, m, n, cell); r.Adopted+r.Released != 0 {
			t.Errorf("%+v", r)
		}
	}
}
