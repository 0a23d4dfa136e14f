package importer

import (
	"testing"
	"time"

	"cellgate/gateway/legacy"
)

// A compute node that is registered again with another uuid, at the same host and node, has
// the claims of its instances once the one before has let them go; until then all that its
// row has in use is unaccounted for there. Nothing is released that is there.
func TestAComputeNodeThatComesBackWithAnotherUUID(t *testing.T) {
	for _, sameLife := range []bool{true, false} {
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
		if !sameLife {
			m = importerOf(t, n)
			n.now = n.now.Add(time.Hour)
		}
		if r := step(t, m, n, cell); r.Released != 0 || r.Conflicts != 2 {
			t.Errorf("same life %v: the first step: %+v", sameLife, r)
		}
		if got := unaccounted(cell, 2, vcpu); got != 2 {
			t.Errorf("same life %v: %d VCPU are unaccounted for, which the other uuid holds", sameLife, got)
		}
		for k := 0; k < 3; k++ {
			if step(t, m, n, cell); cell.claims[instanceID(1)] == nil && unaccounted(cell, 2, vcpu) == 0 {
				t.Errorf("same life %v: step %d: nobody holds an instance", sameLife, k)
			}
		}
		step(t, m, n, cell)
		for _, i := range []int64{1, 2} {
			if c := cell.claims[instanceID(i)]; c == nil || c.host != hostID(2) {
				t.Errorf("same life %v: the claim of instance %d is %+v", sameLife, i, c)
			}
		}
		if got := unaccounted(cell, 2, vcpu); got != 0 {
			t.Errorf("same life %v: %d VCPU are unaccounted for beside the claims", sameLife, got)
		}
		m.Again()
		n.now = n.now.Add(time.Hour)
		for range 3 {
			if r := step(t, m, n, cell); r.Adopted+r.Released+r.Conflicts != 0 {
				t.Errorf("same life %v: afterwards: %+v", sameLife, r)
			}
		}
	}
}

// Another gateway may have sent instances that this one has not seen twice when it takes
// over again: their hosts wait a pass, so that no claim ends.
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

// Of a NATIVE cell no host is written or taken back; the instances of an agent that does not
// know them are as ever, those of one that registers later too, and all hosts are sent when the cell is NATIVE no more.
func TestInstancesAreImportedIntoANativeCell(t *testing.T) {
	n, cell := newNova(4), newCell()
	for i := int64(1); i <= 4; i++ {
		n.services[i].Version = 60
		n.on(i, i)
	}
	n.now = n.now.Add(time.Hour)
	cell.agents(1, 0)
	cell.hosts[hostID(1)].state.InstancesUnknown = true
	cell.agents(2, 0)
	m := importerOf(t, n, requiring(60), func(c *Config) { c.FullEvery = 24 * time.Hour })
	native := func() Report {
		t.Helper()
		n.now = n.now.Add(time.Second)
		r, err := m.StepInstances(t.Context(), n.snapshot(), cell)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := native(); r.Adopted != 1 || r.Unregistered != 2 || r.LeftToAgents != 2 || r.Taken != 0 || len(cell.hosts) != 2 {
		t.Errorf("the first step: %+v, %d hosts", r, len(cell.hosts))
	}
	// An old service takes no host from its agent.
	n.services[1].Version = 50
	cell.claims[instanceID(5)] = &fakeClaim{host: hostID(1), pending: true}
	n.on(5, 1)
	n.put(1, func(r *legacy.Instance) { r.Deleted, r.DeletedAt = true, n.now })
	var confirmed, released int
	for range 3 {
		r := native()
		confirmed, released = confirmed+r.Confirmed, released+r.Released
	}
	if confirmed != 1 || released != 1 || cell.claims[instanceID(1)] != nil || !cell.hosts[hostID(1)].agent {
		t.Errorf("%d confirmed, %d released; %+v", confirmed, released, cell.claims)
	}
	cell.agents(3, 0)
	cell.hosts[hostID(3)].state.InstancesUnknown = true
	adopted := 0
	for range mostConflictSteps {
		adopted += native().Adopted
	}
	if adopted != 1 || cell.claims[instanceID(3)] == nil {
		t.Errorf("%d adopted of an agent that came later", adopted)
	}
	if cell.hosts[hostID(4)] != nil {
		t.Error("a host without an agent was written")
	}
	for _, h := range cell.sent {
		if h.GetRetake() {
			t.Fatal("a host is asked back from its agent")
		}
	}
	// LEGACY again.
	if r := step(t, m, n, cell); !r.Full || r.Taken != 2 || r.Retaken != 1 || cell.hosts[hostID(4)] == nil {
		t.Errorf("after it: %+v", r)
	}
}
