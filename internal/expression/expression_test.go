package expression

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cellgate/internal/norace"
	"cellgate/schedule"
)

// ask returns "" if the host passes, else the detail of its rejection, or "false" if there is none.
func ask(t *testing.T, text string, r *schedule.Request, h schedule.Host) string {
	t.Helper()
	p, err := Compile(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	asked := *r
	asked.Expression = p
	e := schedule.NewTable().Edit()
	e.PutHost(h)
	found, err := e.Table().Propose(&schedule.Query{
		Request: &asked, Rules: &schedule.Rules{Filters: []string{schedule.ExpressionFilter}, Weighers: []schedule.Weigher{}}, Limit: 1,
	})
	switch {
	case err != nil:
		t.Fatalf("%s: %v", text, err)
	case found.Passed == 1:
		return ""
	case len(found.Rejects) != 1 || found.Rejects[0].Filter != schedule.ExpressionFilter:
		t.Fatalf("%s: rejects %v", text, found.Rejects)
	case found.Rejects[0].Detail == "":
		return "false"
	}
	return found.Rejects[0].Detail
}

func aHost() schedule.Host {
	return schedule.Host{
		UUID: schedule.ID{7}, ServiceHost: "s7", NodeName: "n7", Traits: []string{"T1"},
		Aggregates: []schedule.Aggregate{{UUID: "u", Name: "racks", Metadata: map[string]string{"availability_zone": "az1"}}},
		Resources:  []schedule.Resource{{Class: "VCPU", Capacity: 32, Used: 12, MinUnit: 1, MaxUnit: 32, StepSize: 1}},
		View:       schedule.View{NumInstances: 3, NumIOOps: 1, HypervisorVersion: 8001000},
		Facts:      schedule.ParseFacts(schedule.FactTexts{HypervisorType: "QEMU"}),
		Namespaces: schedule.NewNamespaces(map[string]string{
			"cinder": `{"free_gb": 800, "ssd": true, "pools": [{"name": "a", "gb": 5}, {"name": "b", "gb": 900}]}`,
			"keys":   `{"c": 1, "a": 1, "b": 1, "d": 1}`,
			"power":  `{"watts": 12.5, "feed": "A", "dc": {"row": 3}}`,
		}),
	}
}

// Each variable, operators over different kinds of numbers, and the result for hosts that lack a
// fact.
func TestAnswers(t *testing.T) {
	r := &schedule.Request{
		Resources: []schedule.Amount{{Class: "VCPU", N: 4}},
		Nova:      &schedule.NovaRequest{ProjectID: "p1", Flavor: schedule.Flavor{Name: "m1", VCPUs: 4, MemoryMB: 2048, RootGB: 20}},
	}
	for text, want := range map[string]string{
		`facts.cinder.free_gb > 500`:                                            "",
		`facts.cinder.free_gb > 800`:                                            "false",
		`facts.cinder.ssd`:                                                      "",
		`facts.cinder.free_gb`:                                                  "no answer", // not a bool
		`facts.power.watts < 13 && facts.power.feed == "A"`:                     "",
		`facts.power.dc.row == 3`:                                               "",
		`facts["power"]["dc"]["row"] in [1, 3]`:                                 "",
		`facts.neutron.mtu > 1500`:                                              "missing: neutron",
		`facts.cinder.tier == "gold"`:                                           "missing: tier",
		`has(facts.neutron) && facts.neutron.mtu > 1500`:                        "false",
		`!has(facts.neutron) || facts.neutron.mtu > 1500`:                       "",
		`facts.neutron.mtu > 1500 || facts.cinder.ssd`:                          "",
		`facts[host.zone].x == 1`:                                               "missing", // not in the text
		`facts.power.feed > 3`:                                                  "no answer",
		`facts.cinder.free_gb - 1 > 500`:                                        "no answer", // a double minus an int
		`facts.cinder.free_gb - 1.0 > 500`:                                      "",
		`facts.cinder.pools.exists(p, p.gb > 100)`:                              "",
		`facts.cinder.pools.all(p, p.gb > 100)`:                                 "false",
		`facts.cinder.pools.map(p, p.name) == ["a", "b"]`:                       "",
		`size(facts.cinder.pools) == 2`:                                         "",
		`facts.keys.map(k, k) == ["a", "b", "c", "d"]`:                          "", // sorted
		`host.free.VCPU == 20.0 && host.used.VCPU == 12.0`:                      "",
		`host.capacity.VCPU / host.free.VCPU > 1.5`:                             "",
		`host.free.VGPU >= 1`:                                                   "missing: VGPU",
		`host.free.VCPU - request.resources.VCPU >= 16`:                         "",
		`host.service_host == "s7" && host.nodename == "n7"`:                    "",
		`host.uuid.startsWith("0700")`:                                          "",
		`host.zone == "az1" && "racks" in host.aggregates`:                      "",
		`"T1" in host.traits && !("T2" in host.traits)`:                         "",
		`host.instances == 3.0 && host.io_ops <= 1`:                             "",
		`host.hypervisor_version >= 8000000`:                                    "",
		`host.hypervisor_type == "QEMU"`:                                        "",
		`request.flavor.name.matches("^m[0-9]$")`:                               "",
		`request.project_id == "p1" && request.flavor.vcpus == 4.0`:             "",
		`request.flavor.memory_mb == 2048.0`:                                    "",
		`request.flavor.root_gb * 2.0 < facts.cinder.free_gb`:                   "",
		`[` + strings.Repeat("1,", 300) + `1].all(x, facts.cinder.free_gb > x)`: "too costly",
	} {
		if got := ask(t, text, r, aHost()); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := ask(t, `size(facts) == 0`, r, schedule.Host{UUID: schedule.ID{1}}); got != "" {
		t.Errorf("a host of which nothing is said: %q", got)
	}
}

// A real host has some hundred traits, and a loop may go through them.
func TestALoopOverTraits(t *testing.T) {
	h := aHost()
	for i := range 99 {
		h.Traits = append(h.Traits, fmt.Sprintf("HW_CPU_X86_%d", i))
	}
	r := &schedule.Request{}
	for text, want := range map[string]string{
		`host.traits.exists(t, t.startsWith("CUSTOM_LICENSE_"))`:    "false",
		`host.traits.exists(t, t == "HW_CPU_X86_98")`:               "",
		`host.traits.filter(t, t.startsWith("HW_")).size() == 99`:   "",
		`host.traits.all(t, t != "CUSTOM_OLD" && !(t == "COLD_1"))`: "",
	} {
		if got := ask(t, text, r, h); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// The weight that a text gives a host, and the hosts that it cannot weigh.
func TestWeights(t *testing.T) {
	costly := `[` + strings.Repeat("1,", 300) + `1].map(x, x)[0]`
	for text, want := range map[string]string{
		`facts.cinder.free_gb`:                    "800",
		`-2.0 * host.free.VCPU`:                   "-40",
		`host.instances + request.resources.VCPU`: "7",
		`3`:                        "3",
		`size(facts.cinder.pools)`: "2",
		`has(facts.neutron) ? facts.neutron.mtu : -1.0`: "-1",
		`facts.neutron.mtu`:                             "none",
		`facts.power.feed`:                              "none",
		`1 / 0`:                                         "none",
		`facts.cinder.ssd ? 1.5 : 0.0`:                  "1.5",
		costly:                                          "none",
	} {
		w, err := CompileWeight(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		e := schedule.NewTable().Edit()
		e.PutHost(aHost())
		found, err := e.Table().Propose(&schedule.Query{
			Request: &schedule.Request{Weigh: w, Resources: []schedule.Amount{{Class: "VCPU", N: 4}}}, Limit: 1,
			Rules: &schedule.Rules{Filters: []string{}, Weighers: []schedule.Weigher{{Name: schedule.ExpressionWeigher, Multiplier: 1}}},
		})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := fmt.Sprint(found.Candidates[0].Raw[0])
		if len(found.Warnings) > 0 {
			got = "none"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{`true`: "must be a number, is bool", `"a"`: "must be a number, is string", `host.free.VCPU +`: "Syntax error"} {
		_, err := CompileWeight(text)
		var p *Problem
		if !errors.As(err, &p) || !strings.Contains(p.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The cost of an expression follows from its operations, and the part for each host is counted.
func TestCosts(t *testing.T) {
	norace.Skip(t, norace.Pure)
	costs := func(text string, hosts int) error {
		p, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		e := schedule.NewTable().Edit()
		for i := range hosts {
			h := aHost()
			h.UUID = schedule.ID{byte(i), byte(i >> 8)}
			e.PutHost(h)
		}
		_, err = e.Table().Propose(&schedule.Query{
			Request: &schedule.Request{Expression: p}, Rules: &schedule.Rules{Filters: []string{schedule.ExpressionFilter}}, Limit: 1,
		})
		return err
	}
	// heavy has 99 steps.
	const light, heavy = `host.free.VCPU >= 4`, `[1, 1, 1, 1, 1, 1, 1, 1, 1].all(x, facts.cinder.free_gb > x)`
	for text, most := range map[string]int{light: schedule.ExpressionBudget / 12, heavy: schedule.ExpressionBudget / (99 + hostCost)} {
		if err := costs(text, most); err != nil {
			t.Errorf("%s of %d hosts: %v", text, most, err)
		}
	}
	if err := costs(heavy, schedule.ExpressionBudget/60); !errors.Is(err, schedule.ErrCostly) {
		t.Errorf("%s of %d hosts: %v", heavy, schedule.ExpressionBudget/60, err)
	}
}

// A problem is reported with its position.
func TestProblems(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 "must not be empty",
		" \n":                              "must not be empty",
		`facts.cinder.free_gb >`:           "line 1, column 23: Syntax error",
		"host.zone == \"a\" &&\n hst.zone": "line 2, column 2: undeclared reference to 'hst'",
		`host.free.VCPU + 1 > 3`:           "line 1, column 16: found no matching overload for '_+_' applied to '(double, int)'",
		`host.free.VCPU > "3"`:             "line 1, column 16: found no matching overload",
		`host.free.VCPU + 1.0`:             "must be a bool, is double",
		`host.nothing == 1`:                "line 1, column 1: undeclared reference to 'host' with such a field; it has uuid, service_host,",
		`host.instances == 3`:              "line 1, column 16: found no matching overload for '_==_' applied to '(double, int)'",
		`host.zone.matches("(")`:           "line 1, column 19: invalid matches argument",
		` {"b": 1}.size() > 0`:             "line 1, column 2: must have no map of its own",
		`now() > 1`:                        "undeclared reference to 'now'",
		`[1].all(x, [2].all(y, x < y))`:    "comprehension exceeds nesting limit",
		strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60): "recursion",
		`"` + strings.Repeat("x", MaxBytes) + `" != ""`:            "has 2056 bytes, must have at most 2048",
		`[` + strings.Repeat("1,", 1010) + `1].size() > 0`:         "limit",
	} {
		_, err := Compile(text)
		var p *Problem
		if !errors.As(err, &p) || !strings.Contains(p.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

func TestReadsFacts(t *testing.T) {
	for text, want := range map[string]bool{
		`host.zone == "facts"`: false, `size(facts) > 0`: true, `host.free.VCPU > 1 || facts.a.b`: true,
		`[1].exists(facts, facts == 1)`: true, // its own variable of that name, which is harmless
	} {
		if p, err := Compile(text); err != nil || p.ReadsFacts() != want {
			t.Errorf("%s: %v, %v; want %v", text, p.ReadsFacts(), err, want)
		}
	}
}

// naive is a condition and its Go implementation.
type naive struct {
	text string
	// is returns the answer, or the first missing key.
	is func(h *schedule.Host, facts map[string]map[string]float64) (bool, string)
}

func drawNaive(rng *rand.Rand, depth int) naive {
	if depth > 0 && rng.IntN(3) > 0 {
		a, b := drawNaive(rng, depth-1), drawNaive(rng, depth-1)
		// As in CEL: if one side decides, a missing value on the other side does not count.
		join := func(op string, decides bool) naive {
			return naive{"(" + a.text + op + b.text + ")", func(h *schedule.Host, f map[string]map[string]float64) (bool, string) {
				x, lackX := a.is(h, f)
				if lackX == "" && x == decides {
					return decides, ""
				}
				y, lackY := b.is(h, f)
				if lackY == "" && y == decides {
					return decides, ""
				}
				if lackX != "" {
					return false, lackX
				}
				return !decides, lackY
			}}
		}
		switch rng.IntN(3) {
		case 0:
			return join(" && ", false)
		case 1:
			return join(" || ", true)
		}
		return naive{"!" + a.text, func(h *schedule.Host, f map[string]map[string]float64) (bool, string) {
			x, lacks := a.is(h, f)
			return !x, lacks
		}}
	}
	n := float64(rng.IntN(6))
	space, key := []string{"cinder", "power"}[rng.IntN(2)], []string{"x", "y"}[rng.IntN(2)]
	switch rng.IntN(3) {
	case 0:
		return naive{fmt.Sprintf("(host.free.VCPU >= %v)", n), func(h *schedule.Host, _ map[string]map[string]float64) (bool, string) {
			return float64(h.Resources[0].Capacity-h.Resources[0].Used) >= n, ""
		}}
	case 1:
		return naive{fmt.Sprintf("has(facts.%s)", space), func(_ *schedule.Host, f map[string]map[string]float64) (bool, string) {
			return f[space] != nil, ""
		}}
	}
	return naive{fmt.Sprintf("(facts.%s.%s < %v)", space, key, n), func(_ *schedule.Host, f map[string]map[string]float64) (bool, string) {
		if f[space] == nil {
			return false, space
		}
		v, ok := f[space][key]
		if !ok {
			return false, key
		}
		return v < n, ""
	}}
}

// However hosts are split into cells, the same hosts pass and the others are counted under the same
// details as by a naive evaluation. This also holds with a FilterCache.
func TestAnswersAreThoseOfTheNaive(t *testing.T) {
	norace.Skip(t, norace.Pure)
	passed, lacking, asked := 0, 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		question := drawNaive(rng, 3)
		program, err := Compile(question.text)
		if err != nil {
			t.Fatalf("%s: %v", question.text, err)
		}
		r := &schedule.Request{Expression: program}
		rules := &schedule.Rules{Filters: []string{schedule.ExpressionFilter}, Weighers: []schedule.Weigher{}}
		cells := make([]*schedule.Edit, 1+rng.IntN(5))
		for i := range cells {
			cells[i] = schedule.NewTable().Edit()
		}
		want := map[string]int{}
		wantPassed := map[schedule.ID]bool{}
		for i := range 150 {
			h := schedule.Host{
				UUID: schedule.ID{byte(i), 1}, ServiceHost: fmt.Sprint("h", i),
				Resources: []schedule.Resource{{Class: "VCPU", Capacity: 6, Used: rng.Int64N(7), MinUnit: 1, MaxUnit: 6, StepSize: 1}},
			}
			facts, texts := map[string]map[string]float64{}, map[string]string{}
			for _, space := range []string{"cinder", "power"} {
				if rng.IntN(3) == 0 {
					continue
				}
				facts[space] = map[string]float64{}
				var pairs []string
				for _, key := range []string{"x", "y"} {
					if rng.IntN(4) > 0 {
						v := rng.IntN(6)
						facts[space][key] = float64(v)
						pairs = append(pairs, fmt.Sprintf("%q: %d", key, v))
					}
				}
				texts[space] = "{" + strings.Join(pairs, ",") + "}"
			}
			h.Namespaces = schedule.NewNamespaces(texts)
			cells[rng.IntN(len(cells))].PutHost(h)
			is, lacks := question.is(&h, facts)
			switch {
			case lacks != "":
				want[missing+": "+lacks]++
			case is:
				wantPassed[h.UUID] = true
			default:
				want[""]++
			}
		}
		got, gotPassed := map[string]int{}, map[schedule.ID]bool{}
		for _, e := range cells {
			table := e.Table()
			q := &schedule.Query{Request: r, Rules: rules, Limit: 150}
			p, err := table.Propose(q)
			if err != nil {
				t.Fatal(err)
			}
			kept := schedule.NewFilterCache(r, rules)
			for range 2 {
				if again, err := kept.Propose(table, q); err != nil || !reflect.DeepEqual(again, p) {
					t.Fatalf("%s: a FilterCache gives %+v, %v; want %+v", question.text, again, err, p)
				}
			}
			for _, x := range p.Rejects {
				got[x.Detail] += x.Hosts
			}
			for _, c := range p.Candidates {
				gotPassed[c.Host] = true
			}
		}
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotPassed, wantPassed) {
			t.Fatalf("seed %d: %s\nrejects %v, want %v\n%d pass, want %d", seed, question.text, got, want, len(gotPassed), len(wantPassed))
		}
		asked += 150
		passed += len(wantPassed)
		for detail, n := range want {
			if detail != "" {
				lacking += n
			}
		}
	}
	if passed*10 < asked || lacking*20 < asked {
		t.Errorf("of %d hosts %d passed and %d lacked something: the questions show too little", asked, passed, lacking)
	}
}

// Texts are compiled once, and dropped from the cache when many others come.
func TestCacheForgets(t *testing.T) {
	var c Cache
	first, err := c.Compile(`host.io_ops < 1`)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.Compile(`host.io_ops < 1`); err != nil || again != first {
		t.Errorf("compiled again: %v", err)
	}
	if _, err := c.Compile(`host.io_ops <`); err == nil {
		t.Error("a bad text was compiled")
	}
	for i := range maxCached {
		if _, err := c.programs.compile(fmt.Sprint(i), func(string) (*Program, error) { return first, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.programs.made) > maxCached || c.programs.made[`host.io_ops < 1`] != nil {
		t.Errorf("%d texts are kept", len(c.programs.made))
	}
}

// The variables are those that docs/explanation/facts.md lists.
func TestVariablesAreSorted(t *testing.T) {
	var names []string
	for _, v := range variables {
		names = append(names, v.name)
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(variables) {
		t.Errorf("a variable stands twice: %v", names)
	}
}

func BenchmarkAsk(b *testing.B) {
	for _, text := range []string{
		`host.free.VCPU >= 4`, `facts.cinder.free_gb > 500 && facts.cinder.ssd`, `facts.cinder.pools.exists(p, p.gb > 100)`,
		`[` + strings.Repeat("1, ", 8) + `1].all(x, facts.cinder.free_gb > x)`, // 99 steps.
	} {
		b.Run(text[:18], func(b *testing.B) {
			p, err := Compile(text)
			if err != nil {
				b.Fatal(err)
			}
			e := schedule.NewTable().Edit()
			const hosts = 10_000
			for i := range hosts {
				h := aHost()
				h.UUID = schedule.ID{byte(i), byte(i >> 8)}
				e.PutHost(h)
			}
			table := e.Table()
			q := &schedule.Query{
				Request: &schedule.Request{Expression: p}, Rules: &schedule.Rules{Filters: []string{schedule.ExpressionFilter}}, Limit: 10,
			}
			b.ReportAllocs()
			for b.Loop() {
				if found, err := table.Propose(q); err != nil || found.Passed != hosts {
					b.Fatal(found, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hosts, "ns/host")
		})
	}
}
