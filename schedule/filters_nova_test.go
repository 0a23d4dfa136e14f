package schedule

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"cellgate/internal/python"
)

// hostsOf makes a table of these hosts, with UUIDs and service hosts of its own.
func hostsOf(hosts ...Host) *Table {
	e := NewTable().Edit()
	for i, h := range hosts {
		h.UUID, h.ServiceHost = fleetHost(i), string(rune('a'+i))
		e.PutHost(h)
	}
	return e.Table()
}

// Nova runs ComputeCapabilitiesFilter once a request, on hosts without any pick. JsonFilter sees
// hosts with the picks.
func TestOncePerRequest(t *testing.T) {
	table := hostsOf(Host{View: View{FreeRAMMB: 1000}})
	for filter, want := range map[string]int{CapabilitiesFilter: 1, JSONFilter: 0} {
		p := propose(t, table, &Query{
			Request: &Request{
				Consume: Consumption{RAMMB: 600},
				Nova: &NovaRequest{
					Flavor: Flavor{ExtraSpecs: []Pair{{"capabilities:free_ram_mb", ">= 900"}}},
					Hints:  []Hint{{"query", []string{`[">=", "$free_ram_mb", 900]`}}},
				},
			},
			Rules: &Rules{Filters: []string{filter}}, Limit: 1,
			TentativePlacements: []TentativePlacement{{Host: fleetHost(0), Instance: fleetInstance(0)}},
		})
		if p.Passed != want {
			t.Errorf("%s passes %d hosts, want %d", filter, p.Passed, want)
		}
	}
}

// Without a group, Nova does not add the picks of a request to the instances of their hosts.
func TestJSONFilter_PickWithoutGroup_IsNoInstanceOfItsHost(t *testing.T) {
	q := &Query{
		Request:             &Request{Nova: &NovaRequest{Hints: []Hint{{"query", []string{`["not", "$instances"]`}}}}},
		Rules:               &Rules{Filters: []string{JSONFilter}},
		TentativePlacements: []TentativePlacement{{Host: fleetHost(0), Instance: fleetInstance(0)}}, Limit: 1,
	}
	if p := propose(t, hostsOf(Host{}), q); p.Passed != 1 {
		t.Errorf("the host of the first pick is rejected: %+v", p.Rejects)
	}
	q.Request.Group = &Group{UUID: fleetGroup(1), Policy: SoftAffinity}
	if p := propose(t, hostsOf(Host{}), q); p.Passed != 0 {
		t.Error("a host with a member of the group has no instances")
	}
}

// If Nova raises for a host, the host is rejected, counted and named. With StrictNova the answer is
// Nova's exception: of the first filter, in order, that raises for a host that it sees.
func TestUnreadableHosts(t *testing.T) {
	table := hostsOf(
		Host{Facts: ParseFacts(FactTexts{HypervisorType: "7"})},
		Host{Facts: ParseFacts(FactTexts{HypervisorType: "QEMU"})},
		Host{Facts: ParseFacts(FactTexts{Stats: "{"})},
	)
	q := &Query{
		Request: &Request{Nova: &NovaRequest{
			Flavor: Flavor{ExtraSpecs: []Pair{{"capabilities:hypervisor_type", ">= 5"}}},
			Hints:  []Hint{{"query", []string{`[">", "$hypervisor_type", 5]`}}},
		}},
		Rules: &Rules{Filters: []string{CapabilitiesFilter, JSONFilter}}, Limit: 3,
	}
	want := []Reject{
		{Filter: HostFilter, Detail: Unreadable, Hosts: 1, Example: "c", Class: "JSONDecodeError", Message: "stats: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
		{
			Filter: CapabilitiesFilter, Detail: Unreadable, Hosts: 1, Example: "b",
			Class: "ValueError", Message: "could not convert string to float: 'QEMU'",
		},
		{
			Filter: JSONFilter, Detail: Unreadable, Hosts: 1, Example: "a",
			Class: "TypeError", Message: "'>' not supported between instances of 'str' and 'int'",
		},
	}
	if got := propose(t, table, q); !reflect.DeepEqual(got.Rejects, want) || got.NovaException != nil {
		t.Errorf("rejects %+v, raised %v", got.Rejects, got.NovaException)
	}
	q.Rules.Options = DefaultOptions()
	q.Rules.Options.StrictNova = true
	if got := propose(t, table, q).NovaException; got == nil || got.Stage != StageHostStates || got.Host != "c" {
		t.Errorf("raised %v, want host c's stats", got)
	}
	e := table.Edit()
	e.RemoveHost(fleetHost(2))
	table = e.Table()
	got := propose(t, table, q).NovaException
	if got == nil || got.Error() != "ComputeCapabilitiesFilter raises ValueError: could not convert string to float: 'QEMU' (host b)" {
		t.Errorf("raised %v", got)
	}
	q.Rules.Filters = []string{JSONFilter, CapabilitiesFilter}
	if got := propose(t, table, q).NovaException; got == nil || got.Filter != JSONFilter || got.Class != "TypeError" {
		t.Errorf("raised %v, want the first filter's", got)
	}
}

// A plan over several cells raises what one scheduler over their hosts would: of the first filter or weigher, whichever
// cell's hosts raise in it.
func TestPlan_CellsRaiseInSeveralFilters_FirstFilterCounts(t *testing.T) {
	o := DefaultOptions()
	o.StrictNova, o.MetricsSetting = true, []Ratio{{"cpu.percent", 1}}
	unfilled := ParseFacts(FactTexts{})
	unfilled.Unfilled = true
	for _, of := range []struct {
		filters []string
		hosts   []*Facts // one in each cell
		want    string
	}{
		{[]string{CapabilitiesFilter, JSONFilter}, []*Facts{ParseFacts(FactTexts{HypervisorType: "7"}), ParseFacts(FactTexts{HypervisorType: "QEMU"})}, CapabilitiesFilter},
		{[]string{}, []*Facts{nil, unfilled}, CPUWeigher},
	} {
		var cells []proposer
		for _, facts := range of.hosts {
			cells = append(cells, hostsOf(Host{Facts: facts}).Propose)
		}
		request := &Request{Nova: &NovaRequest{
			Flavor: Flavor{ExtraSpecs: []Pair{{"capabilities:hypervisor_type", ">= 5"}}},
			Hints:  []Hint{{"query", []string{`[">", "$hypervisor_type", 5]`}}},
		}}
		rules := &Rules{Filters: of.filters, Weighers: []Weigher{{CPUWeigher, 1}, {MetricsWeigher, 1}}, Options: o}
		plan := NewPlan(PlanConfig{Request: request, Rules: rules, Instances: []ID{fleetInstance(0)}, Cells: len(cells)})
		drive(t, plan, cells, rand.New(rand.NewPCG(1, 1)))
		if got := plan.Result().NovaException; got == nil || got.Filter != of.want {
			t.Errorf("%v: raised %v, want %s", of.filters, got, of.want)
		}
	}
}

// If an aggregate's value is not a number, its hosts are counted in a warning, and the configured
// option applies.
func TestWarnings(t *testing.T) {
	bad := []Aggregate{{UUID: "1", Metadata: map[string]string{"ram_weight_multiplier": "much", maxIOOps: "few"}}}
	good := []Aggregate{{UUID: "2", Metadata: map[string]string{"ram_weight_multiplier": "3"}}}
	table := hostsOf(Host{Aggregates: bad}, Host{Aggregates: bad}, Host{Aggregates: append(good, bad...)}, Host{Aggregates: good})
	p := propose(t, table, &Query{
		Request: &Request{}, Rules: &Rules{Filters: []string{AggregateIoOpsFilter}, Weighers: []Weigher{{RAMWeigher, 2}}}, Limit: 4,
	})
	if want := []Warning{{Key: maxIOOps, Hosts: 3, Example: "a"}, {Key: "ram_weight_multiplier", Hosts: 3, Example: "a"}}; !reflect.DeepEqual(p.Warnings, want) {
		t.Errorf("warnings %+v, want %+v", p.Warnings, want)
	}
	if want := []Bounds{{2, 3}}; p.Passed != 4 || !reflect.DeepEqual(p.Multipliers, want) {
		t.Errorf("%d passed, multipliers %v, want %v", p.Passed, p.Multipliers, want)
	}
}

// A host without a required metric ranks last. With StrictNova this raises, but not for a single
// host, which Nova does not weigh.
func TestMissingMetric(t *testing.T) {
	has := Host{Facts: ParseFacts(FactTexts{Metrics: `[{"name": "cpu.percent", "value": 0.29}]`})}
	table := hostsOf(Host{}, has)
	o := DefaultOptions()
	o.MetricsSetting = []Ratio{{"cpu.percent", 1}}
	rules := &Rules{Filters: []string{}, Weighers: []Weigher{{MetricsWeigher, 1}}, Options: o}
	p := propose(t, table, &Query{Request: &Request{}, Rules: rules, Limit: 2})
	if len(p.Candidates) != 2 || p.Candidates[0].ServiceHost != "b" || p.Candidates[1].Raw[0] != -10000 || p.Candidates[0].Raw[0] != 28 {
		t.Errorf("candidates %+v", p.Candidates)
	}
	want := []Warning{{
		Key: MetricsWeigher, Hosts: 1, Example: "a", Class: "ComputeHostMetricNotFound",
		Message: "Metric cpu.percent could not be found on the compute host node a..",
	}}
	if !reflect.DeepEqual(p.Warnings, want) {
		t.Errorf("warnings %+v", p.Warnings)
	}
	// A weigher that is named twice warns once of a host.
	rules.Weighers = append(rules.Weighers, rules.Weighers[0])
	if p = propose(t, table, &Query{Request: &Request{}, Rules: rules, Limit: 2}); !reflect.DeepEqual(p.Warnings, want) {
		t.Errorf("named twice: warnings %+v", p.Warnings)
	}
	rules.Weighers = rules.Weighers[:1]
	o.StrictNova = true
	for hosts, want := range map[int]bool{1: false, 2: true} {
		r := &Request{}
		if hosts == 1 {
			r.ForceHosts = []string{"a"}
		}
		plan := NewPlan(PlanConfig{Request: r, Rules: rules, Instances: []ID{fleetInstance(0)}, Cells: 1})
		drive(t, plan, []proposer{table.Propose}, rand.New(rand.NewPCG(1, 1)))
		got := plan.Result()
		if (got.NovaException != nil) != want || want && (got.NovaException.Class != "ComputeHostMetricNotFound" || len(got.Picks) != 0) {
			t.Errorf("%d hosts: raised %v, %d picks", hosts, got.NovaException, len(got.Picks))
		}
	}
}

// The seed picks one of the best SubsetSize hosts, and some seed picks each of them.
func TestSubset(t *testing.T) {
	var hosts []Host
	for i := range 20 {
		hosts = append(hosts, Host{View: View{FreeRAMMB: int64(1000 * i)}})
	}
	table := hostsOf(hosts...)
	o := DefaultOptions()
	o.SubsetSize = 4
	picked := map[string]int{}
	for seed := range uint64(200) {
		plan := NewPlan(PlanConfig{
			Request: &Request{}, Rules: &Rules{Weighers: []Weigher{{RAMWeigher, 1}}, Options: o},
			Seed: seed, Instances: []ID{fleetInstance(0)}, Cells: 1, Alternates: 3,
		})
		drive(t, plan, []proposer{table.Propose}, rand.New(rand.NewPCG(seed, 1)))
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
	var mem, disk []Host
	for i := range 12 {
		mem = append(mem, Host{View: View{FreeRAMMB: int64(100 + i), FreeDiskMB: int64(1000 * (12 - i))}})
	}
	disk = append(disk, Host{View: View{FreeRAMMB: 1_000_000, FreeDiskMB: 1}})
	cells := []proposer{hostsOf(mem...).Propose, nil}
	e := NewTable().Edit()
	disk[0].UUID = fleetHost(100)
	e.PutHost(disk[0])
	cells[1] = e.Table().Propose
	all := NewTable().Edit()
	for i, h := range mem {
		h.UUID, h.ServiceHost = fleetHost(i), string(rune('a'+i))
		all.PutHost(h)
	}
	all.PutHost(disk[0])
	one := all.Table()
	o := DefaultOptions()
	o.SubsetSize = 5
	rules := &Rules{Weighers: []Weigher{{RAMWeigher, 3}, {DiskWeigher, 1}}, Options: o}
	for seed := range uint64(40) {
		r := &Request{}
		plan := NewPlan(PlanConfig{Request: r, Rules: rules, Seed: seed, Instances: []ID{fleetInstance(0)}, Cells: 2})
		drive(t, plan, cells, rand.New(rand.NewPCG(seed, 2)))
		single := NewPlan(PlanConfig{Request: r, Rules: rules, Seed: seed, Instances: []ID{fleetInstance(0)}, Cells: 1})
		drive(t, single, []proposer{one.Propose}, rand.New(rand.NewPCG(seed, 3)))
		got, want := plan.Result(), single.Result()
		if !got.Exact || got.Picks[0].Candidate.Host != want.Picks[0].Candidate.Host {
			t.Fatalf("seed %d: picked %+v, one scheduler %+v", seed, got.Picks[0].Candidate, want.Picks[0].Candidate)
		}
	}
}

// Stats become texts, as in ComputeNode's field. A value that cannot be a text makes the row
// unreadable.
func TestStatsAreTexts(t *testing.T) {
	f := ParseFacts(FactTexts{Stats: `{"n": 5, "x": 1.0, "b": true, "none": null, "s": "7"}`})
	for key, want := range map[string]string{"n": "'5'", "x": "'1.0'", "b": "'True'", "none": "None", "s": "'7'"} {
		v := f.stats.Get(key)
		if got := v.Repr(); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	for _, bad := range []string{`{"l": []}`, `[1]`, `{`, `3`, `[]`, `0`, `false`, `""`} {
		if ParseFacts(FactTexts{Stats: bad}).Failed["stats"] == "" {
			t.Errorf("%s is read", bad)
		}
	}
	for _, none := range []string{`{}`, `null`} {
		if why := ParseFacts(FactTexts{Stats: none}).Failed["stats"]; why != "" {
			t.Errorf("%s is not read: %s", none, why)
		}
	}
}

// SupportedInstances that Python cannot iterate over make the row unreadable.
func TestSupportedInstances_NotIterable_AreUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		`null`: "TypeError: 'NoneType' object is not iterable", `0`: "TypeError: 'int' object is not iterable",
		`false`: "TypeError: 'bool' object is not iterable", `{}`: "", `""`: "", `[]`: "",
	} {
		if got := ParseFacts(FactTexts{SupportedInstances: text}).Failed["supported_instances"]; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Capabilities are compared by the text that Python's str gives for the JSON value.
func TestPythonText(t *testing.T) {
	for in, want := range map[string]string{
		`["avx", "it's", "\"", "a\"'b", null, true]`:                    `['avx', "it's", '"', 'a"\'b', None, True]`,
		`{"a": 1, "b": [1.5, -0.0, 1e16, 1e-5, 100000000000000000000]}`: `{'a': 1, 'b': [1.5, -0.0, 1e+16, 1e-05, 100000000000000000000]}`,
		`"plain"`:           `plain`,
		`"\n\t\\"`:          "\n\t\\",
		`["\n\t\\\u0001é"]`: `['\n\t\\\x01é']`,
		`1e15`:              `1000000000000000.0`,
		`123456789.125`:     `123456789.125`,
	} {
		v, err := python.ParseJSON(in)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if got := v.String(); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

// For every key that a warning can have, ReaderOf names the filter or weigher that reads it.
func TestReaderOf(t *testing.T) {
	for _, w := range Weighers() {
		if ReaderOf(w) != w || ReaderOf(MultiplierOption(w)) != w {
			t.Errorf("%s and %s are read by %q and %q", w, MultiplierOption(w), ReaderOf(w), ReaderOf(MultiplierOption(w)))
		}
	}
	set := []Aggregate{{UUID: "a", Metadata: map[string]string{}}}
	for key, filter := range limitReaders {
		set[0].Metadata[key] = "some"
		if !slices.Contains(Filters(), filter) || ReaderOf(key) != filter {
			t.Errorf("%s is read by %q, want %s", key, ReaderOf(key), filter)
		}
	}
	e := NewTable().Edit()
	e.PutHost(Host{UUID: fleetHost(1), Aggregates: set, View: View{VCPUsTotal: 8, TotalRAMMB: 8, TotalDiskGB: 8, CPURatio: 1, RAMRatio: 1, DiskRatio: 1, FreeRAMMB: 8, FreeDiskMB: 8}})
	p := propose(t, e.Table(), &Query{Request: &Request{}, Rules: &Rules{Filters: Filters()}, Limit: 1})
	if len(p.Warnings) != len(limitReaders) {
		t.Errorf("warnings %+v, want one of each key of %v", p.Warnings, limitReaders)
	}
	if ReaderOf("color") != "" {
		t.Error("a key that nobody reads has a reader")
	}
}

// TestEmptyTexts: compute_nodes.cpu_info and hypervisor_type are never NULL, so "" is a value. A
// row that was never updated has neither of these, nor stats.
func TestEmptyTexts(t *testing.T) {
	empty, unfilled := ParseFacts(FactTexts{Stats: "{}"}), ParseFacts(FactTexts{Stats: "{}"})
	unfilled.Unfilled = true
	for name, want := range map[string]bool{"cpu_info": true, "hypervisor_type": true, "host_ip": false, "stats": true} {
		for _, f := range []*Facts{empty, unfilled} {
			v, _ := (&row{host: &Host{Facts: f}}).attribute(name)
			if there := v.Kind != python.KindNone; there != (want && f == empty) {
				t.Errorf("%s of a host that is unfilled %t: there is %t", name, f == unfilled, there)
			}
		}
	}
}
