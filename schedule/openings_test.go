package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
)

// wholeRequest is a request of several instances over cells.
type wholeRequest struct {
	cells     []*Table
	request   *Request
	rules     *Rules
	seed      uint64
	instances []ID
}

// plan places all instances, for r in place of the request.
func (w *wholeRequest) plan(t testingT, r *Request) *Result {
	p := NewPlan(PlanConfig{Request: r, Rules: w.rules, Seed: w.seed, Instances: w.instances, Cells: len(w.cells)})
	var cells []proposer
	for _, c := range w.cells {
		cells = append(cells, c.Propose)
	}
	drive(t, p, cells, rand.New(rand.NewPCG(w.seed, 1)))
	return p.Result()
}

// leastChange is the change that a gateway would name for the request, which does not fit.
func (w *wholeRequest) leastChange(t testingT, failed *Result) []Miss {
	var openings []Opening
	for c, table := range w.cells {
		q := failed.NearMissQuery(Query{Request: w.request, Rules: w.rules, Seed: w.seed, Limit: 1, NearMisses: 10}, c, w.instances)
		p, err := table.Propose(&q)
		if err != nil {
			t.Fatalf("%v", err)
		}
		openings = append(openings, p.NearMisses.Openings...)
	}
	fits := func(misses []Miss) bool { return w.plan(t, w.request.Relaxed(misses)).Failed < 0 }
	changes := LeastChanges(openings, len(w.instances)-failed.Failed, MostKinds, fits)
	checkChanges(t, w.seed, changes, fits)
	if len(changes) == 0 {
		return nil
	}
	return changes[0].Misses
}

// randomWhole draws small cells, some with members of a group, and a request of several instances. With minUnits, some
// hosts have a min_unit of 2.
func randomWhole(rng *rand.Rand, minUnits bool) *wholeRequest {
	w := &wholeRequest{seed: rng.Uint64(), rules: &Rules{Weighers: []Weigher{{RAMWeigher, 1}}}}
	edits := make([]*Edit, 1+rng.IntN(3))
	for i := range edits {
		edits[i] = NewTable().Edit()
	}
	amount := func(class string, most int64) Resource {
		r := Resource{Class: class, Capacity: 1 + rng.Int64N(most), MinUnit: 1, StepSize: 1}
		r.MaxUnit, r.Used = r.Capacity, rng.Int64N(1+r.Capacity/2)
		if rng.IntN(8) == 0 {
			r.MaxUnit = 1 + rng.Int64N(r.Capacity)
		}
		if minUnits && rng.IntN(4) == 0 {
			r.MinUnit = min(2, r.Capacity)
		}
		return r
	}
	var hosts []ID
	for i := range 2 + rng.IntN(5) {
		h := Host{
			UUID: fleetHost(i), ServiceHost: fmt.Sprintf("h%d", i), NodeName: fmt.Sprintf("n%d", i), Disabled: rng.IntN(12) == 0,
			Traits: some(rng, []string{"T0", "T1"}, 0.6), Resources: []Resource{amount("VCPU", 12), amount("MEMORY_MB", 12)},
		}
		h.View.FreeRAMMB = rng.Int64N(100)
		if rng.IntN(3) > 0 {
			h.Aggregates = []Aggregate{{UUID: "z", Name: "z", Metadata: map[string]string{"availability_zone": "az1"}}}
		}
		edits[rng.IntN(len(edits))].PutHost(h)
		hosts = append(hosts, h.UUID)
	}
	r := &Request{Required: some(rng, []string{"T0", "T1"}, 0.3)}
	for _, class := range []string{"VCPU", "MEMORY_MB"} {
		if rng.IntN(4) > 0 {
			r.Resources = append(r.Resources, Amount{class, 1 + rng.Int64N(6)})
		}
	}
	if rng.IntN(3) == 0 {
		r.AvailabilityZone = "az1"
	}
	if rng.IntN(3) > 0 {
		r.Group = &Group{UUID: fleetGroup(1), Policy: oneOf(rng, []Policy{Affinity, Affinity, AntiAffinity, SoftAffinity}), MaxPerHost: rng.IntN(3)}
	}
	for i := range rng.IntN(3) {
		for _, e := range edits { // only the cell that has the host accepts it
			e.PutConsumer(oneOf(rng, hosts), Consumer{Instance: fleetInstance(100 + i), Group: fleetGroup(1)})
		}
	}
	w.request = r
	for i := range 1 + rng.IntN(5) {
		w.instances = append(w.instances, fleetInstance(i))
	}
	for _, e := range edits {
		w.cells = append(w.cells, e.Table())
	}
	return w
}

// Brute force, for a refused request of several instances: the named change makes all of them fit, whatever their group
// and wherever its members are. No combination of changes that costs less does. That does not hold where hosts have a
// min_unit: a smaller amount can then drop the host that hard affinity would have chosen.
func TestLeastChange_SeveralInstancesOverCells_WholeRequestFitsAndNoSmallerChange(t *testing.T) {
	norace.Skip(t, norace.Pure)
	want := testlong.Or(400, 20000)
	refused, tried, later, several := 0, 0, 0, 0
	byPolicy := map[Policy]int{}
	for seed := uint64(1); refused < want; seed++ {
		minUnits := seed%8 == 0
		w := randomWhole(rand.New(rand.NewPCG(seed, 3)), minUnits)
		failed := w.plan(t, w.request)
		if failed.Failed < 0 || len(w.instances) < 2 {
			continue
		}
		refused++
		later += bit2int(failed.Failed > 0)
		change := w.leastChange(t, failed)
		cost := float64(operatorCost)
		if change != nil {
			if g := w.request.Group; g != nil {
				byPolicy[g.Policy]++
			}
			several += bit2int(len(change) > 1)
			cost = costOf(change)
			if r := w.plan(t, w.request.Relaxed(change)); r.Failed >= 0 {
				t.Fatalf("seed %d: instance %d of %d finds no host after %+v", seed, r.Failed, len(w.instances), change)
			}
		}
		if minUnits {
			continue
		}
		kinds := changesOf(w.request)
		var misses []Miss
		var try func(at int, sum float64)
		try = func(at int, sum float64) {
			if sum > cost-1e-9 {
				return
			}
			if at == len(kinds) {
				tried++
				if w.plan(t, w.request.Relaxed(misses)).Failed < 0 {
					t.Fatalf("seed %d: %d instances, %+v of cost %v is named, but %v of %+v is enough (group %+v)", seed, len(w.instances), change, cost, sum, misses, w.request.Group)
				}
				return
			}
			try(at+1, sum)
			for i := range kinds[at] {
				misses = append(misses, kinds[at][i])
				try(at+1, sum+kinds[at][i].cost())
				misses = misses[:len(misses)-1]
			}
		}
		try(0, 0)
	}
	t.Logf("%d refused requests, %d of a later instance, %d changes of several conditions, by policy %v, %d combinations tried", refused, later, several, byPolicy, tried)
	if later == 0 || several == 0 || byPolicy[Affinity] == 0 || byPolicy[AntiAffinity] == 0 || byPolicy[SoftAffinity] == 0 {
		t.Error("the requests drawn show too little")
	}
}

// A large fleet in which each host has another amount free: the change is the one that the last instance needs, and the
// search is bounded.
func TestLeastChange_ManyHostsAndInstances_AmountOfTheLastOne(t *testing.T) {
	e := NewTable().Edit()
	for i := range 2000 {
		e.PutHost(Host{UUID: fleetHost(i), ServiceHost: fmt.Sprintf("h%d", i), Resources: []Resource{
			{Class: "MEMORY_MB", Capacity: 4000 + int64(i), MinUnit: 1, MaxUnit: 4000 + int64(i), StepSize: 1},
		}})
	}
	w := &wholeRequest{cells: []*Table{e.Table()}, request: &Request{Resources: []Amount{{"MEMORY_MB", 6000}}}, rules: &Rules{}}
	for i := range 100 {
		w.instances = append(w.instances, fleetInstance(i))
	}
	got := w.leastChange(t, w.plan(t, w.request))
	if len(got) != 1 || got[0].Most != 5900 || got[0].Asked != 6000 || got[0].Detail != "MEMORY_MB" {
		t.Errorf("the change is %+v", got)
	}
	w.request.Resources = append(w.request.Resources, Amount{"VCPU", 1})
	if got := w.leastChange(t, w.plan(t, w.request)); got != nil {
		t.Errorf("no host has VCPU, and the change is %+v", got)
	}
}

// Under hard affinity, most hosts have room for all instances at some amount, but the first instance goes to another
// host at that amount. The change is the amount at which that other host takes them all.
func TestLeastChange_AffinityToTheHostThatIsChosen_AmountForAllOnIt(t *testing.T) {
	e := NewTable().Edit()
	for i := range 200 {
		h := Host{UUID: fleetHost(i), ServiceHost: fmt.Sprintf("h%d", i), Resources: []Resource{
			{Class: "VCPU", Capacity: 512, MinUnit: 1, MaxUnit: 128, StepSize: 1},
		}}
		if i == 7 {
			h.Resources[0].Capacity, h.Resources[0].MaxUnit, h.View.FreeRAMMB = 256, 256, 1000
		}
		e.PutHost(h)
	}
	w := &wholeRequest{cells: []*Table{e.Table()}, rules: &Rules{Weighers: []Weigher{{RAMWeigher, 1}}}, request: &Request{
		Resources: []Amount{{"VCPU", 200}}, Group: &Group{UUID: fleetGroup(1), Policy: Affinity},
	}}
	for i := range 3 {
		w.instances = append(w.instances, fleetInstance(i))
	}
	got := w.leastChange(t, w.plan(t, w.request))
	if len(got) != 1 || got[0].Most != 85 {
		t.Errorf("the change is %+v, want at most 85 VCPU", got)
	}
}
