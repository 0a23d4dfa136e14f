package importer

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cellgate/gateway/legacy"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

func requiring(version int64) func(*Config) {
	return func(c *Config) { c.RequiredVersion = version }
}

// agents has a host's agent register it, and be alive for a time from now on.
func (f *fakeCell) agents(i int64, alive time.Duration) {
	s := &agentv1.FullState{HostUuid: hostID(i), ServiceHost: fmt.Sprintf("host%d", i), Nodename: fmt.Sprintf("node%d", i), Providers: []*agentv1.Provider{{Uuid: hostID(i)}}}
	f.hosts[hostID(i)] = &fakeHost{agent: true, alive: alive, state: s}
}

// steps makes steps until one sends something, and says how many there were.
func steps(t testing.TB, m *Importer, n *nova, c Caller) (Report, int) {
	t.Helper()
	for k := range 1000 {
		if r := step(t, m, n, c); r.Sent > 0 {
			return r, k + 1
		}
	}
	t.Fatal("nothing is sent")
	return Report{}, 0
}

// A host whose service is old is taken back from an agent that is gone, by whatever
// importer: the one that saw it be new, the gateway's next life, or another one's.
func TestAHostIsTakenBackWhoeverSawItsServiceBeNew(t *testing.T) {
	for name, next := range map[string]func(*Importer, *nova) *Importer{
		"the same":       func(m *Importer, _ *nova) *Importer { return m },
		"started again":  func(_ *Importer, n *nova) *Importer { return importerOf(t, n, requiring(60)) },
		"took turns":     func(m *Importer, _ *nova) *Importer { m.Again(); return m },
		"a call was cut": func(m *Importer, _ *nova) *Importer { return m },
	} {
		t.Run(name, func(t *testing.T) {
			n, cell := newNova(2), newCell()
			n.services[1].Version, n.services[2].Version = 60, 60
			n.on(1, 1)
			n.on(2, 1)
			n.now = n.now.Add(time.Hour)
			m := importerOf(t, n, requiring(60))
			step(t, m, n, cell)
			cell.agents(1, 0)
			if name == "started again" {
				m = importerOf(t, n, requiring(60))
			}
			if r := step(t, m, n, cell); name == "started again" && r.AgentHosts != 1 || r.OldWithAgent != 0 || r.Retaken != 0 {
				t.Errorf("its service is new: %+v", r)
			}
			n.services[1].Version = 59
			n.put(2, func(r *legacy.Instance) { r.Deleted, r.DeletedAt = true, n.now })
			n.on(3, 1)
			n.now = n.now.Add(time.Hour)
			m = next(m, n)
			if name == "a call was cut" {
				cell.after = func(int) error { cell.after = nil; return errCut }
				if _, err := m.Step(context.Background(), n.snapshot(), cell); err == nil {
					t.Error("the call was not cut")
				}
			}
			step(t, m, n, cell)
			step(t, m, n, cell)
			if cell.hosts[hostID(1)].agent {
				t.Fatal("the host is its agent's still")
			}
			if c := cell.claims; c[instanceID(1)] == nil || c[instanceID(2)] != nil || c[instanceID(3)] == nil {
				t.Errorf("claims are %v, want those of instances 1 and 3", c)
			}
			calls := cell.calls
			if r := step(t, m, n, cell); r.OldWithAgent != 0 || r.AgentHosts != 0 || cell.calls != calls {
				t.Errorf("it is taken again: %+v", r)
			}
			// Its agent comes back with a new service: it is the agent's.
			cell.agents(1, 0)
			n.services[1].Version = 60
			if r := step(t, m, n, cell); r.LeftToAgents != 1 || r.AgentHosts != 1 || r.OldWithAgent != 0 || r.Retaken != 0 {
				t.Errorf("upgraded again: %+v", r)
			}
		})
	}
}

// An agent that is alive keeps its host, whatever its service. The host is told of in
// every step, and the cell is asked now and then: when it said that the agent may be
// gone, and later each time.
func TestAHostWhoseAgentIsAliveIsNotTakenBack(t *testing.T) {
	n, cell := newNova(2), newCell()
	cell.agents(1, time.Minute)
	m := importerOf(t, n, requiring(60), func(c *Config) { c.FullEvery = 24 * time.Hour })
	n.services[2].Version = 60
	for k, want := range []time.Duration{0, time.Minute, 2 * time.Minute, 4 * time.Minute, 4 * time.Minute} {
		r, took := steps(t, m, n, cell)
		if r.OldWithAgent != 1 || !slices.Equal(r.OldHosts, []string{"host1"}) || r.Retaken != 0 || r.LeftToAgents != 1 {
			t.Errorf("ask %d: %+v", k, r)
		}
		// A snapshot takes a second.
		if k > 0 && took != int(want/time.Second) {
			t.Errorf("ask %d came after %d s, want %v", k, took, want)
		}
		if r := step(t, m, n, cell); r.OldWithAgent != 1 || r.AgentHosts != 1 || r.Sent != 0 {
			t.Errorf("after ask %d: %+v", k, r)
		}
		n.now = n.now.Add(-time.Second)
	}
	if !cell.hosts[hostID(1)].agent {
		t.Error("it was taken")
	}
	// What changes in its row is no reason to ask.
	n.touch(1)
	if r := step(t, m, n, cell); r.Sent != 0 {
		t.Errorf("its row changed: %+v", r)
	}
	cell.hosts[hostID(1)].alive = 0
	if r, _ := steps(t, m, n, cell); r.Retaken != 1 || r.OldWithAgent != 0 {
		t.Errorf("the agent is gone: %+v", r)
	}
}

// Without a required version no service is old.
func TestWithoutARequiredVersionNothingIsTakenBack(t *testing.T) {
	n, cell := newNova(1), newCell()
	cell.agents(1, 0)
	m := importerOf(t, n)
	for range 3 {
		if r := step(t, m, n, cell); r.Retaken != 0 || r.OldWithAgent != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// A host that was taken back is the importer's: it goes with its row, and what would be
// written of it is compared.
func TestAHostThatWasTakenBackIsComparedAndGoes(t *testing.T) {
	n, cell := newNova(3), newCell()
	n.on(1, 1)
	n.now = n.now.Add(time.Hour)
	cell.agents(1, 0)
	cell.agents(2, time.Minute)
	compare := func() map[What]int {
		t.Helper()
		d, err := importerOf(t, n, requiring(60)).Compare(t.Context(), n.snapshot(), cell)
		if err != nil {
			t.Fatal(err)
		}
		return d.Counts
	}
	n.services[3].Version = 60
	cell.agents(3, time.Minute)
	if c := compare(); c[HostOldAgents] != 2 || c[HostAgents] != 1 || c[HostEqual]+c[HostChanged]+c[HostNew] != 0 {
		t.Errorf("before: %v", c)
	}
	step(t, importerOf(t, n, requiring(60)), n, cell)
	if c := compare(); c[HostOldAgents] != 1 || c[HostAgents] != 1 || c[HostEqual] != 1 || c[InstanceEqual] != 1 {
		t.Errorf("after: %v", c)
	}
	delete(n.hosts, 1)
	if c := compare(); c[HostGone] != 1 || c[HostAgents] != 1 {
		t.Errorf("its row is gone: %v", c)
	}
	m := importerOf(t, n, requiring(60))
	step(t, m, n, cell)
	if r := step(t, m, n, cell); r.Gone != 1 {
		t.Errorf("%+v", r)
	}
	if s := cell.hosts[hostID(1)].state; !s.GetDisabled() {
		t.Errorf("the host without a row is %v", s)
	}
}

// Where an agent does not know its instances the importer speaks for them, as long as
// that is so.
func TestTheImporterSpeaksForInstancesThatAnAgentDoesNotKnow(t *testing.T) {
	n, cell := newNova(1), newCell()
	n.services[1].Version = 60
	n.on(1, 1)
	n.now = n.now.Add(time.Hour)
	cell.agents(1, 0)
	cell.hosts[hostID(1)].state.InstancesUnknown = true
	m := importerOf(t, n, requiring(60), func(c *Config) { c.FullEvery = 24 * time.Hour })
	if r := step(t, m, n, cell); r.LeftToAgents != 1 || r.AgentHosts != 1 || r.Adopted != 1 {
		t.Errorf("the first step: %+v", r)
	}
	if r := step(t, m, n, cell); r.Sent != 0 {
		t.Errorf("nothing changed: %+v", r)
	}
	n.on(2, 1)
	if r, _ := steps(t, m, n, cell); r.Sent != 1 || r.Adopted != 1 {
		t.Errorf("an instance came: %+v", r)
	}
	n.put(1, func(r *legacy.Instance) { r.Deleted, r.DeletedAt = true, n.now })
	if r, _ := steps(t, m, n, cell); r.Sent != 1 || r.Released != 1 {
		t.Errorf("an instance went: %+v", r)
	}
	if !cell.hosts[hostID(1)].agent || cell.claims[instanceID(1)] != nil || cell.claims[instanceID(2)] == nil {
		t.Errorf("the cell has %+v and %+v", cell.hosts[hostID(1)], cell.claims)
	}
	cell.hosts[hostID(1)].state.InstancesUnknown = false
	n.on(3, 1)
	if r, _ := steps(t, m, n, cell); r.Sent != 1 || r.Adopted != 0 {
		t.Errorf("the agent knows them: %+v", r)
	}
	n.on(4, 1)
	for range 5 {
		if r := step(t, m, n, cell); r.Sent != 0 {
			t.Errorf("the agent knows them, and the importer goes on: %+v", r)
		}
	}
}

// A host whose row is gone is taken back from an agent that is gone too, whether this
// importer has ever seen the row or not; one whose agent may be alive is asked for later.
func TestAHostWithoutARowGoesWithItsAgent(t *testing.T) {
	for _, seen := range []bool{true, false} {
		n, cell := newNova(2), newCell()
		n.services[1].Version, n.services[2].Version = 60, 60
		cell.agents(1, time.Minute)
		cell.agents(2, time.Minute)
		m := importerOf(t, n, requiring(60), func(c *Config) { c.FullEvery = 24 * time.Hour })
		if seen {
			step(t, m, n, cell)
		}
		delete(n.hosts, 1)
		delete(n.services, 1)
		for range 5 {
			step(t, m, n, cell)
		}
		if h := cell.hosts[hostID(1)]; !h.agent {
			t.Errorf("seen %v: it was taken from an agent that may be alive: %v", seen, h.state)
		}
		cell.hosts[hostID(1)].alive = 0
		sent := len(cell.sent)
		n.now = n.now.Add(10 * time.Minute)
		step(t, m, n, cell)
		h := cell.hosts[hostID(1)]
		if h.agent || !h.state.GetDisabled() || len(h.state.GetProviders()[0].GetInventories()) != 0 {
			t.Errorf("seen %v: it is %v", seen, h.state)
		}
		for _, in := range cell.sent[sent:] {
			if in.GetState().GetHostUuid() == hostID(2) && in.GetRetake() {
				t.Errorf("seen %v: a host that has a row is asked for", seen)
			}
		}
		if !cell.hosts[hostID(2)].agent {
			t.Errorf("seen %v: a host that has a row was taken back", seen)
		}
	}
}
