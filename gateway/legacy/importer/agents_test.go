package importer

import (
	"fmt"
	"testing"
	"time"

	"cellgate/gateway/legacy/novadb"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// agents registers a host by its agent.
func (f *fakeCell) agents(i int64) {
	s := &agentv1.FullState{HostUuid: hostID(i), ServiceHost: fmt.Sprintf("host%d", i), Nodename: fmt.Sprintf("node%d", i), Providers: []*agentv1.Provider{{Uuid: hostID(i)}}}
	f.hosts[hostID(i)] = &fakeHost{agent: true, state: s}
}

// steps makes steps until one sends something, and says how many there were.
func steps(t testing.TB, m *Importer, n *nova, c Cell) (Report, int) {
	t.Helper()
	for k := range 1000 {
		if r := step(t, m, n, c); r.Sent > 0 {
			return r, k + 1
		}
	}
	t.Fatal("nothing is sent")
	return Report{}, 0
}

// While an agent does not know its instances, the importer reports them.
func TestTheImporterSpeaksForInstancesThatAnAgentDoesNotKnow(t *testing.T) {
	n, cell := newNova(1), newCell()
	n.services[1].Version = 60
	n.on(1, 1)
	n.now = n.now.Add(time.Hour)
	cell.agents(1)
	cell.hosts[hostID(1)].state.InstancesUnknown = true
	m := importerOf(t, n, func(c *Config) { c.FullEvery = 24 * time.Hour })
	if r := step(t, m, n, cell); r.OwnedByAgents != 1 || r.AgentHosts != 1 || r.Adopted != 1 {
		t.Errorf("the first step: %+v", r)
	}
	if r := step(t, m, n, cell); r.Sent != 0 {
		t.Errorf("nothing changed: %+v", r)
	}
	n.on(2, 1)
	if r, _ := steps(t, m, n, cell); r.Sent != 1 || r.Adopted != 1 {
		t.Errorf("an instance came: %+v", r)
	}
	n.put(1, func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
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
