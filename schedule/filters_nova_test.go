package schedule

import (
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

// A host without a required metric ranks last.
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
