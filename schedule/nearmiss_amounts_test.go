package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
	"cellgate/schedule/hardware"
)

// hardwareOf is the report of a small host: cells of cores with two threads each, some CPUs pinned, and memory in MB,
// partly in pages of 2 MiB.
func hardwareOf(rng *rand.Rand) FactTexts {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	var cells []any
	pages, next := rng.IntN(2) == 0, 0
	for id := range 1 + rng.IntN(2) {
		var shared, dedicated, pinned []int
		var siblings [][]int
		for range 1 + rng.IntN(5) {
			siblings = append(siblings, []int{next, next + 1})
			for _, cpu := range siblings[len(siblings)-1] {
				if rng.IntN(4) == 0 {
					shared = append(shared, cpu)
				} else if dedicated = append(dedicated, cpu); rng.IntN(4) == 0 {
					pinned = append(pinned, cpu)
				}
			}
			next += 2
		}
		memory := 1 + rng.Int64N(12)
		data := map[string]any{
			"id": id, "cpuset": shared, "pcpuset": dedicated, "pinned_cpus": pinned, "siblings": siblings, "memory": memory,
			"memory_usage": rng.Int64N(memory), "cpu_usage": rng.IntN(2), "socket": id, "mempages": []any{},
		}
		if pages {
			data["mempages"] = []any{
				novaObject(map[string]any{"size_kb": 4, "total": 256 * rng.Int64N(memory+1), "used": 0, "reserved": 0}),
				novaObject(map[string]any{"size_kb": 2048, "total": rng.Int64N(6), "used": 0, "reserved": 0}),
			}
		}
		cells = append(cells, novaObject(data))
	}
	return FactTexts{Stats: "{}", NUMATopology: text(novaObject(map[string]any{"cells": cells}))}
}

// randomGuestFleet draws a table of small hosts, and a request that Nova would make of a flavor with NUMA nodes,
// dedicated CPUs or pages.
func randomGuestFleet(rng *rand.Rand) (*Table, *Query) {
	e := NewTable().Edit()
	amount := func(class string, most int64) Resource {
		r := Resource{Class: class, Capacity: 1 + rng.Int64N(most), MinUnit: 1, StepSize: 1}
		r.MaxUnit, r.Used = r.Capacity, rng.Int64N(1+r.Capacity/3)
		if rng.IntN(4) == 0 {
			r.MinUnit, r.StepSize = 1+rng.Int64N(2), 1+rng.Int64N(3)
		}
		return r
	}
	hosts := 1 + rng.IntN(5)
	for i := range hosts {
		h := Host{
			UUID: fleetHost(i), ServiceHost: fmt.Sprintf("h%d", i), NodeName: fmt.Sprintf("n%d", i), Disabled: rng.IntN(12) == 0,
			Traits: some(rng, []string{"T0", hyperthreading}, 0.7), Resources: []Resource{amount("MEMORY_MB", 24)},
		}
		if rng.IntN(2) == 0 {
			h.Resources = append(h.Resources, amount("PCPU", 12))
		}
		if rng.IntN(3) > 0 {
			h.Resources = append(h.Resources, amount("VCPU", 20))
		}
		if rng.IntN(3) == 0 {
			h.Resources = append(h.Resources, amount("DISK_GB", 8))
		}
		h.View.CPURatio, h.View.RAMRatio = 1+rng.Float64(), 1+rng.Float64()
		if rng.IntN(6) > 0 {
			h.Facts = ParseFacts(hardwareOf(rng))
		}
		if rng.IntN(3) > 0 {
			h.Aggregates = []Aggregate{{UUID: "z", Name: "z", Metadata: map[string]string{"availability_zone": "az1"}}}
		}
		e.PutHost(h)
	}
	cells, each, memory := 1+rng.IntN(2), 1+rng.IntN(8), 1+rng.Int64N(9)
	n := int64(cells * each)
	cell := hardware.InstanceCell{MemoryMB: memory, PageSize: oneOf(rng, []int64{0, 0, hardware.PageSmall, hardware.PageLarge, hardware.PageAny, 2048})}
	r := &Request{Nova: &NovaRequest{
		Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Release: oneOf(rng, []int32{0, 28, 30})}}, Image: &Image{},
		Flavor: Flavor{VCPUs: n, MemoryMB: memory * int64(cells)},
	}}
	r.Resources = []Amount{{"MEMORY_MB", memory * int64(cells)}}
	if rng.IntN(3) == 0 {
		r.Resources = append(r.Resources, Amount{"DISK_GB", 1 + rng.Int64N(6)})
	}
	second := append(slices.Clone(r.Resources), Amount{"VCPU", n})
	if rng.IntN(3) == 0 {
		cell.CPUs, r.Resources = each, second
	} else {
		cell.Policy, cell.Dedicated, cell.Threads = hardware.CPUDedicated, each, oneOf(rng, []string{"", hardware.ThreadPrefer, hardware.ThreadIsolate, hardware.ThreadRequire})
		r.Nova.NUMA.IsolateEmulator = rng.IntN(4) == 0
		r.Resources = append(r.Resources, Amount{"PCPU", n + int64(bit2int(r.Nova.NUMA.IsolateEmulator))})
		if rng.IntN(2) == 0 {
			r.Fallback = &Fallback{Resources: second}
		}
		switch cell.Threads {
		case hardware.ThreadRequire:
			r.Required, r.Nova.NeedThreads = []string{hyperthreading}, true
		case hardware.ThreadIsolate:
			r.Forbidden = []string{hyperthreading}
		}
	}
	for range cells {
		cell.ID = int64(len(r.Nova.NUMA.Cells))
		r.Nova.NUMA.Cells = append(r.Nova.NUMA.Cells, cell)
	}
	if rng.IntN(3) == 0 {
		r.Required = append(r.Required, "T0")
		if r.Fallback != nil {
			r.Fallback.Required = []string{"T0"}
		}
	}
	if rng.IntN(3) == 0 {
		r.AvailabilityZone = "az1"
	}
	switch rng.IntN(8) {
	case 0:
		r.ForceHosts, r.CheckForced = []string{fmt.Sprintf("h%d", rng.IntN(hosts))}, rng.IntN(2) == 0
	case 1:
		r.Destination = &Destination{Host: fmt.Sprintf("h%d", rng.IntN(hosts+1))}
	}
	rules := &Rules{Filters: DefaultFilters()}
	if rng.IntN(4) > 0 {
		rules.Filters = append(rules.Filters, NUMAFilter)
	}
	return e.Table(), &Query{Request: r, Rules: rules, Limit: 1, NearMisses: 1}
}

// Brute force, for refused requests with NUMA cells, dedicated CPUs or pages: every listed change alone makes the
// request fit. No combination of changes costs less than the first. Each condition that suffices alone is listed at its
// least cost.
func TestChanges_NUMAAndDedicatedCPUs_FitAndNoneIsSmaller(t *testing.T) {
	norace.Skip(t, norace.Pure)
	want := testlong.Or(250, 10000)
	refused, tried, several := 0, 0, 0
	by := map[string]int{}
	for seed := uint64(1); refused < want; seed++ {
		table, q := randomGuestFleet(rand.New(rand.NewPCG(seed, 5)))
		p := propose(t, table, q)
		if p.Passed > 0 {
			continue
		}
		refused++
		fits := func(misses []Miss) bool {
			one := *q
			one.Request, one.NearMisses = q.Request.Relaxed(misses), 0
			return propose(t, table, &one).Passed > 0
		}
		changes := p.NearMisses.Changes
		checkChanges(t, seed, changes, fits)
		cost := float64(operatorCost)
		for i, c := range changes {
			if i == 0 {
				cost = c.Cost
			}
			by[kindOf(c.Misses)]++
			several += bit2int(len(c.Misses) > 1)
		}
		tried += noSmallerChange(t, seed, q.Request, changes, cost, fits)
	}
	t.Logf("%d refused requests, %d combinations tried, %d changes of several conditions", refused, tried, several)
	for _, kind := range []string{"PCPU", "VCPU", "MEMORY_MB", "MEMORY_MB+PCPU", NUMAFilter, HostFilter + "(named)"} {
		t.Logf("%d changes of %s", by[kind], kind)
		if by[kind] == 0 {
			t.Errorf("no change is of %s: the fleets drawn show too little", kind)
		}
	}
}

// kindOf names the conditions of a change.
func kindOf(misses []Miss) string {
	var names []string
	for _, m := range misses {
		switch {
		case m.Filter == ResourceFilter:
			names = append(names, m.Detail)
		case m.Detail == "":
			names = append(names, m.Filter)
		default:
			names = append(names, m.Filter+"("+m.Detail+")")
		}
	}
	slices.Sort(names)
	text := ""
	for i, name := range names {
		if i > 0 {
			text += "+"
		}
		text += name
	}
	return text
}

// checkChanges demands that each change alone fits, that they are ordered by cost, and that none includes the
// conditions of a cheaper one.
func checkChanges(t failer, seed uint64, changes []Change, fits func([]Miss) bool) {
	for i, c := range changes {
		if !fits(c.Misses) {
			t.Fatalf("seed %d: %+v does not fit", seed, c)
		}
		if c.Cost != costOf(c.Misses) || i > 0 && c.Cost < changes[i-1].Cost {
			t.Fatalf("seed %d: %+v comes after %+v", seed, c, changes[i-1])
		}
		for _, before := range changes[:i] {
			if sameConditions(c.Misses, before.Misses) {
				t.Fatalf("seed %d: %+v is more than %+v", seed, c, before)
			}
		}
	}
}

// noSmallerChange fails if a combination of changes that costs less than cost fits. It also fails if a single condition
// fits that is not listed at that cost or less.
func noSmallerChange(t failer, seed uint64, r *Request, changes []Change, cost float64, fits func([]Miss) bool) (tried int) {
	kinds := changesOf(r)
	if n := amountOf(r.Resources, "PCPU"); n > 0 {
		var cpus []Miss
		for less := int64(1); less < r.Nova.Flavor.VCPUs; less++ {
			cpus = append(cpus, Miss{Filter: ResourceFilter, Detail: "VCPU", Asked: r.Nova.Flavor.VCPUs, Most: less, Changeable: true})
		}
		kinds = append(kinds, cpus)
	}
	var misses []Miss
	var try func(at int, sum float64)
	try = func(at int, sum float64) {
		if sum > cost-1e-9 {
			return
		}
		if at == len(kinds) {
			if tried++; fits(misses) {
				t.Fatalf("seed %d: the changes are %+v, but %v of %+v is enough", seed, changes, sum, misses)
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
	for _, kind := range kinds {
		for _, m := range kind {
			listed := slices.ContainsFunc(changes, func(c Change) bool { return kindOf(c.Misses) == kindOf([]Miss{m}) && c.Cost <= m.cost()+1e-9 })
			if tried++; !listed && len(changes) < MostKinds && fits([]Miss{m}) {
				t.Fatalf("seed %d: %+v would fit, the changes are %+v", seed, m, changes)
			}
		}
	}
	return tried
}

// A request for 192 dedicated CPUs, on hosts that have fewer: the change is the most CPUs of one host, by both its NUMA
// cells and its inventory. BenchmarkNearMissesNUMA measures the search.
func TestChanges_DedicatedCPUsOnLargerHosts_MostThatAHostHas(t *testing.T) {
	table, q := dedicatedFleet(300)
	p := propose(t, table, q)
	got := p.NearMisses.Changes
	if len(got) == 0 || kindOf(got[0].Misses) != "PCPU" || got[0].Misses[0].Asked != 192 || got[0].Misses[0].Most != 128 {
		t.Errorf("the changes are %+v, want 128 PCPU first", got)
	}
}

// dedicatedFleet has hosts with two sockets of at most 64 free CPUs each, and a request for 192 CPUs over two cells.
func dedicatedFleet(hosts int) (*Table, *Query) {
	rng := rand.New(rand.NewPCG(5, 6))
	e := NewTable().Edit()
	for i, h := range benchHosts(hosts) {
		facts := benchHardware(rng)
		h.Facts = ParseFacts(facts)
		h.Resources = append(h.Resources, Resource{Class: "PCPU", Capacity: 128, MinUnit: 1, MaxUnit: 128, StepSize: 1})
		if i == hosts/2 {
			facts.NUMATopology = regexp.MustCompile(`"pinned_cpus":\[[0-9,]*\]`).ReplaceAllString(facts.NUMATopology, `"pinned_cpus":[]`)
			h.Facts = ParseFacts(facts)
		}
		e.PutHost(h)
	}
	cells := []hardware.InstanceCell{{Dedicated: 96, MemoryMB: 1, Policy: hardware.CPUDedicated}, {ID: 1, Dedicated: 96, MemoryMB: 1, Policy: hardware.CPUDedicated}}
	return e.Table(), &Query{Limit: 1, NearMisses: 10, Rules: &Rules{Filters: append(DefaultFilters(), NUMAFilter)}, Request: &Request{
		Resources: []Amount{{"PCPU", 192}, {"MEMORY_MB", 2}}, Fallback: &Fallback{Resources: []Amount{{"VCPU", 192}, {"MEMORY_MB", 2}}},
		Nova: &NovaRequest{Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: cells}}},
	}}
}

func BenchmarkNearMissesNUMA(b *testing.B) {
	table, q := dedicatedFleet(10_000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.Propose(q); err != nil {
			b.Fatal(err)
		}
	}
}

// An inventory whose step_size is above the amount asked for offers no smaller amount.
func TestSteps_StepSizeAboveAsked_AreNoneAndFoundAtOnce(t *testing.T) {
	e := NewTable().Edit()
	e.PutHost(Host{UUID: fleetHost(0), Resources: []Resource{{Class: "MEMORY_MB", Capacity: 1 << 40, MinUnit: 1, MaxUnit: 1 << 40, StepSize: 1<<40 - 1}}})
	s := scaledAmount{class: "MEMORY_MB", asked: 4096, cells: 1}
	if steps := s.stepsOn(e.Table().row(0)); len(steps) > 0 {
		t.Errorf("%+v", steps)
	}
}
