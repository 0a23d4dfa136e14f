package schedule_test

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// A plan over several cells raises what one scheduler over their hosts would: of the first filter or weigher, whichever
// cell's hosts raise in it.
func TestPlan_CellsRaiseInSeveralFilters_FirstFilterCounts(t *testing.T) {
	o := schedule.DefaultOptions()
	o.StrictNova, o.MetricsSetting = true, []schedule.Ratio{{"cpu.percent", 1}}
	unfilled := schedule.ParseFacts(schedule.FactTexts{})
	unfilled.Unfilled = true
	for _, of := range []struct {
		filters []string
		hosts   []*schedule.Facts // one in each cell
		want    string
	}{
		{[]string{schedule.CapabilitiesFilter, schedule.JSONFilter}, []*schedule.Facts{schedule.ParseFacts(schedule.FactTexts{HypervisorType: "7"}), schedule.ParseFacts(schedule.FactTexts{HypervisorType: "QEMU"})}, schedule.CapabilitiesFilter},
		{[]string{}, []*schedule.Facts{nil, unfilled}, schedule.CPUWeigher},
	} {
		var cells []schedule.Proposer
		for _, facts := range of.hosts {
			cells = append(cells, schedule.HostsOf(schedule.Host{Facts: facts}).Propose)
		}
		request := &schedule.Request{Nova: &schedule.NovaRequest{
			Flavor: schedule.Flavor{ExtraSpecs: []schedule.Pair{{"capabilities:hypervisor_type", ">= 5"}}},
			Hints:  []schedule.Hint{{"query", []string{`[">", "$hypervisor_type", 5]`}}},
		}}
		rules := &schedule.Rules{Filters: of.filters, Weighers: []schedule.Weigher{{schedule.CPUWeigher, 1}, {schedule.MetricsWeigher, 1}}, Options: o}
		plan := merge.NewPlan(merge.Config{Request: request, Rules: rules, Instances: []schedule.ID{schedule.TestID('i', 0)}, Cells: len(cells)})
		drive(t, plan, cells, rand.New(rand.NewPCG(1, 1)))
		if got := plan.Result().NovaException; got == nil || got.Filter != of.want {
			t.Errorf("%v: raised %v, want %s", of.filters, got, of.want)
		}
	}
}

// With StrictNova, a host without a required metric raises an exception, but not if it is the only one that passes: Nova
// does not weigh a single host.
func TestPlan_HostLacksARequiredMetric_RaisesUnlessAlone(t *testing.T) {
	has := schedule.Host{Facts: schedule.ParseFacts(schedule.FactTexts{Metrics: `[{"name": "cpu.percent", "value": 0.29}]`})}
	table := schedule.HostsOf(schedule.Host{}, has)
	o := schedule.DefaultOptions()
	o.StrictNova, o.MetricsSetting = true, []schedule.Ratio{{"cpu.percent", 1}}
	rules := &schedule.Rules{Filters: []string{}, Weighers: []schedule.Weigher{{schedule.MetricsWeigher, 1}}, Options: o}
	for hosts, want := range map[int]bool{1: false, 2: true} {
		r := &schedule.Request{}
		if hosts == 1 {
			r.ForceHosts = []string{"a"}
		}
		plan := merge.NewPlan(merge.Config{Request: r, Rules: rules, Instances: []schedule.ID{schedule.TestID('i', 0)}, Cells: 1})
		drive(t, plan, []schedule.Proposer{table.Propose}, rand.New(rand.NewPCG(1, 1)))
		got := plan.Result()
		if (got.NovaException != nil) != want || want && (got.NovaException.Class != "ComputeHostMetricNotFound" || len(got.Picks) != 0) {
			t.Errorf("%d hosts: raised %v, %d picks", hosts, got.NovaException, len(got.Picks))
		}
	}
}

// The seed picks one of the best SubsetSize hosts, and some seed picks each of them.
func TestSubset(t *testing.T) {
	var hosts []schedule.Host
	for i := range 20 {
		hosts = append(hosts, schedule.Host{View: schedule.View{FreeRAMMB: int64(1000 * i)}})
	}
	table := schedule.HostsOf(hosts...)
	o := schedule.DefaultOptions()
	o.SubsetSize = 4
	picked := map[string]int{}
	for seed := range uint64(200) {
		plan := merge.NewPlan(merge.Config{
			Request: &schedule.Request{}, Rules: &schedule.Rules{Weighers: []schedule.Weigher{{schedule.RAMWeigher, 1}}, Options: o},
			Seed: seed, Instances: []schedule.ID{schedule.TestID('i', 0)}, Cells: 1, Alternates: 3,
		})
		drive(t, plan, []schedule.Proposer{table.Propose}, rand.New(rand.NewPCG(seed, 1)))
		r := plan.Result()
		picked[r.Picks[0].Candidate.ServiceHost]++
		if n := len(r.Picks[0].Alternates); n != 3 || !r.Exact {
			t.Fatalf("seed %d: %d alternates, exact %v", seed, n, r.Exact)
		}
	}
	if len(picked) != 4 || picked["t"] < 25 || picked["q"] < 25 {
		t.Errorf("picked %v, want the four with most memory about alike", picked)
	}
}

// A cell whose own ranking hides some of the best hosts over all cells is asked again, even if only
// the last host of the subset is hidden.
func TestI5_SubsetHiddenByOwnBounds(t *testing.T) {
	// By its own bounds cell 0 ranks by memory. Over both cells, disk decides.
	var mem, disk []schedule.Host
	for i := range 12 {
		mem = append(mem, schedule.Host{View: schedule.View{FreeRAMMB: int64(100 + i), FreeDiskMB: int64(1000 * (12 - i))}})
	}
	disk = append(disk, schedule.Host{View: schedule.View{FreeRAMMB: 1_000_000, FreeDiskMB: 1}})
	cells := []schedule.Proposer{schedule.HostsOf(mem...).Propose, nil}
	e := schedule.NewTable().Edit()
	disk[0].UUID = schedule.TestID('h', 100)
	e.PutHost(disk[0])
	cells[1] = e.Table().Propose
	all := schedule.NewTable().Edit()
	for i, h := range mem {
		h.UUID, h.ServiceHost = schedule.TestID('h', i), string(rune('a'+i))
		all.PutHost(h)
	}
	all.PutHost(disk[0])
	one := all.Table()
	o := schedule.DefaultOptions()
	o.SubsetSize = 5
	rules := &schedule.Rules{Weighers: []schedule.Weigher{{schedule.RAMWeigher, 3}, {schedule.DiskWeigher, 1}}, Options: o}
	for seed := range uint64(40) {
		r := &schedule.Request{}
		plan := merge.NewPlan(merge.Config{Request: r, Rules: rules, Seed: seed, Instances: []schedule.ID{schedule.TestID('i', 0)}, Cells: 2})
		drive(t, plan, cells, rand.New(rand.NewPCG(seed, 2)))
		single := merge.NewPlan(merge.Config{Request: r, Rules: rules, Seed: seed, Instances: []schedule.ID{schedule.TestID('i', 0)}, Cells: 1})
		drive(t, single, []schedule.Proposer{one.Propose}, rand.New(rand.NewPCG(seed, 3)))
		got, want := plan.Result(), single.Result()
		if !got.Exact || got.Picks[0].Candidate.Host != want.Picks[0].Candidate.Host {
			t.Fatalf("seed %d: picked %+v, one scheduler %+v", seed, got.Picks[0].Candidate, want.Picks[0].Candidate)
		}
	}
}

// BenchmarkPlan64 plans 64 instances over three cells of 3,333 hosts.
func BenchmarkPlan64(b *testing.B) {
	cells, q := schedule.NovaBench(3, 3333)
	instances := make([]schedule.ID, 64)
	for i := range instances {
		instances[i] = schedule.TestID('i', i)
	}
	b.ReportAllocs()
	for b.Loop() {
		p := merge.NewPlan(merge.Config{Request: q.Request, Rules: q.Rules, Seed: 7, Instances: instances, Cells: 3})
		drive(b, p, cells, rand.New(rand.NewPCG(1, 1)))
		if len(p.Result().Picks) != 64 {
			b.Fatal("too few picks")
		}
	}
}

// The scores of a candidate add up to its weight, to the last bit.
func TestScores_RandomFleets_AddUpToTheWeight(t *testing.T) {
	norace.Skip(t, norace.Pure)
	weighed := 0
	schedule.PropChecks(t, 100)
	rapid.Check(t, func(t *rapid.T) {
		f := schedule.DrawFleet(t)
		q := schedule.DrawQuery(t, f)
		q.Known = nil
		p, err := schedule.FleetTable(f).Propose(q)
		if err != nil {
			t.Fatal(err)
		}
		known := &schedule.GlobalStats{Bounds: p.Bounds, Passed: int64(p.Passed)}
		for i := range p.Candidates {
			sum := 0.0
			for _, s := range merge.Scores(q.Rules, known, &p.Candidates[i]) {
				sum = s.Value + sum
			}
			columns, inColumns := merge.ColumnsOf(q.Rules, known, []merge.Leader{{Candidate: &p.Candidates[i]}}), 0.0
			for k := range columns.Weighers {
				multiplier := columns.Multipliers[k]
				if columns.Own != nil {
					multiplier = columns.Own[k]
				}
				inColumns = multiplier*((columns.Raw[k]-columns.Min[k])/(columns.Max[k]-columns.Min[k])) + inColumns
			}
			if inColumns != sum {
				t.Fatalf("columns add up to %v, scores to %v", inColumns, sum)
			}
			if sum != p.Candidates[i].Weight {
				t.Fatalf("the scores of %+v add up to %v", p.Candidates[i], sum)
			}
			if sum != 0 {
				weighed++
			}
		}
	})
	if weighed == 0 {
		t.Error("the fleets drawn show too little")
	}
}
