package schedule

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
)

// After any edits, a table holds the same as a plain map, and answers like a table that was built
// anew. Every older version is unchanged.
func TestEditsEqualRebuilt(t *testing.T) {
	norace.Skip(t, norace.Pure)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<40).Draw(t, "edit seed"), 5))
		type version struct {
			table *Table
			model *model
		}
		m := &model{hosts: map[ID]Host{}, consumers: naiveConsumers{}}
		table := NewTable()
		kept := []version{{table, m.clone()}}
		for range rapid.IntRange(1, 12).Draw(t, "versions") {
			e := table.Edit()
			for range rapid.SampledFrom([]int{0, 1, 3, 60}).Draw(t, "edits") {
				if !randomEdit(rng, e, m) {
					t.Fatalf("an edit answers unlike the model")
				}
			}
			next := e.Table()
			if next.Version() != table.Version()+1 {
				t.Fatalf("version %d after %d", next.Version(), table.Version())
			}
			table = next
			kept = append(kept, version{table, m.clone()})
		}
		for _, v := range kept {
			v.model.holds(t, v.table)
			f := v.model.fleet()
			q := drawQuery(t, f)
			got := propose(t, v.table, q)
			sameProposal(t, q, got, propose(t, f.table(), q))
			sameProposal(t, q, got, naivePropose(f.hosts, f.consumers, q))
		}
	})
}

// PutHost copies the host: later changes by the caller do not reach the table.
func TestPutHostKeepsItsOwn(t *testing.T) {
	h := Host{
		UUID: fleetHost(1), Traits: []string{"A"}, Resources: []Resource{{Class: "VCPU", Capacity: 4, MaxUnit: 4}},
		Aggregates: []Aggregate{{UUID: "a", Metadata: map[string]string{"availability_zone": "az1"}}},
	}
	e := NewTable().Edit()
	e.PutHost(h)
	table := e.Table()
	h.Traits[0], h.Resources[0].Used, h.Aggregates[0].Metadata["availability_zone"] = "B", 9, "az2"
	got, _ := table.Host(h.UUID)
	if got.Traits[0] != "A" || got.Resources[0].Used != 0 || got.Aggregates[0].Metadata["availability_zone"] != "az1" {
		t.Errorf("the table's host changed: %+v", got)
	}
}

// A host that is put again keeps its consumers. A removed host loses them, and the next host in its
// slot has none.
func TestConsumersFollowTheirHost(t *testing.T) {
	group := fleetGroup(1)
	e := NewTable().Edit()
	e.PutHost(Host{UUID: fleetHost(1), ServiceHost: "a"})
	e.PutConsumer(fleetHost(1), Consumer{Instance: fleetInstance(1), Group: group})
	e.PutHost(Host{UUID: fleetHost(1), ServiceHost: "b"})
	kept := e.Table()
	if host, _, ok := kept.Consumer(fleetInstance(1)); !ok || host != fleetHost(1) {
		t.Errorf("consumer is on %v %v", host, ok)
	}
	e = kept.Edit()
	e.RemoveHost(fleetHost(1))
	e.PutHost(Host{UUID: fleetHost(2), ServiceHost: "c"})
	gone := e.Table()
	if _, _, ok := gone.Consumer(fleetInstance(1)); ok {
		t.Error("the consumer of a removed host is still there")
	}
	q := &Query{Request: &Request{Group: &Group{UUID: group, Policy: AntiAffinity}}, Rules: &Rules{}, Limit: 1}
	if p := propose(t, gone, q); p.Passed != 1 || len(p.GroupHosts) != 0 {
		t.Errorf("the slot's next host has members: %+v", p)
	}
	if p := propose(t, kept, q); p.Passed != 0 || len(p.GroupHosts) != 1 || p.GroupHosts[0].ServiceHost != "b" {
		t.Errorf("the older version lost its member: %+v", p)
	}
}

// Many nodes of one service host, as with baremetal, span several chunks.
func TestServiceHostWithManyNodes(t *testing.T) {
	e := NewTable().Edit()
	const nodes = 500
	for i := range nodes {
		service := "ironic"
		if i%5 == 0 {
			service = "other"
		}
		e.PutHost(Host{UUID: fleetHost(i), ServiceHost: service, NodeName: fmt.Sprint("n", i)})
	}
	table := e.Table()
	for left := nodes; left > 0; left -= 100 {
		q := &Query{Request: &Request{ForceHosts: []string{"IRONIC"}}, Rules: &Rules{}, Limit: 1}
		if p := propose(t, table, q); p.Passed != left*4/5 {
			t.Fatalf("%d of %d hosts are forced, want %d", p.Passed, left, left*4/5)
		}
		e := table.Edit()
		for i := left - 100; i < left; i++ {
			e.RemoveHost(fleetHost(i))
		}
		table = e.Table()
	}
	if n := table.services.n + table.nodes.n + table.slots.n; n != 0 {
		t.Errorf("%d names are left of no hosts", n)
	}
}

// Readers of any version, with tentative placements, run concurrently with an editor. Run with
// -race.
func TestReadersBesideEditor(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	m := &model{hosts: map[ID]Host{}, consumers: naiveConsumers{}}
	e := NewTable().Edit()
	for range 400 {
		randomEdit(rng, e, m)
	}
	table := e.Table()
	q := &Query{
		Request: takenRequest, Rules: &Rules{}, Limit: 5,
		TentativePlacements: []TentativePlacement{{Host: fleetHost(1), Instance: fleetInstance(90)}, {Host: fleetHost(100), Instance: fleetInstance(91)}},
	}
	var readers sync.WaitGroup
	defer readers.Wait()
	for range 20 {
		version, want := table, naivePropose(m.fleet().hosts, m.clone().consumers, q)
		for range 2 {
			readers.Go(func() {
				for range 5 {
					got, err := version.Propose(q)
					if err != nil || got.Passed != want.Passed || len(got.Candidates) > 0 && got.Candidates[0].Weight != want.Candidates[0].Weight {
						t.Errorf("version %d: %+v %v, want %+v", version.Version(), got, err, want)
						return
					}
				}
			})
		}
		e := table.Edit()
		for range 20 {
			randomEdit(rng, e, m)
		}
		table = e.Table()
	}
}

// Two edits of one table share nothing that they write. Queries with tentative placements edit
// older versions so.
func TestBranchesStayApart(t *testing.T) {
	for n := range 9 {
		e := NewTable().Edit()
		e.PutHost(Host{UUID: fleetHost(1)})
		for i := range n {
			e.PutConsumer(fleetHost(1), Consumer{Instance: fleetInstance(i)})
		}
		base := e.Table()
		left, right := base.Edit(), base.Edit()
		left.PutConsumer(fleetHost(1), Consumer{Instance: fleetInstance(100)})
		right.PutConsumer(fleetHost(1), Consumer{Instance: fleetInstance(200)})
		e = left.Table().Edit()
		e.RemoveHost(fleetHost(1))
		if got := e.Table(); got.consumers.n != 0 {
			t.Errorf("with %d consumers: %d are left of a removed host", n, got.consumers.n)
		}
		if _, _, ok := right.Table().Consumer(fleetInstance(200)); !ok {
			t.Errorf("with %d consumers: the other branch lost its own", n)
		}
	}
}

// A pick uses CPUs of its host's view, shared or dedicated, as vcpus_used in Nova. Those of child providers do not count.
func TestAllocationConsumption_SharedAndDedicatedCPUs_Add(t *testing.T) {
	root := fleetHost(1)
	a := &Allocation{Amounts: []ProviderAmount{{root, "PCPU", 3}, {root, "VCPU", 2}, {fleetHost(2), "PCPU", 7}, {root, "DISK_GB", 5}}}
	if got, want := a.consumption(root), (Consumption{VCPUs: 5, DiskMB: 5 * 1024}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
