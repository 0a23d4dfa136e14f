package schedule

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
)

// The naive way: each host is checked alone. Its change lets it pass, and no smaller change does.
func TestNearMisses_RandomFleets_LeastChangeLetsTheHostPass(t *testing.T) {
	norace.Skip(t, norace.Pure)
	var refused, changed, several, amounts int
	propChecks(t, testlong.Or(200, 400))
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		table := f.table()
		q := drawQuery(t, f)
		q.Known, q.TentativePlacements = nil, nil
		q.NearMisses = 1 << 30
		p := propose(t, table, q)
		got := p.NearMisses
		q.NearMisses = 0
		if got.Hosts != p.Hosts || got.Passed != p.Passed {
			t.Fatalf("%d of %d pass, by Propose %d of %d", got.Passed, got.Hosts, p.Passed, p.Hosts)
		}
		for _, r := range p.Rejects {
			if r.Detail == Unreadable {
				continue
			}
			if !slices.ContainsFunc(got.Conditions, func(c Condition) bool {
				return c.Filter == r.Filter && (c.Detail == r.Detail && c.Hosts >= r.Hosts || r.Filter == ComputeFilter)
			}) {
				t.Fatalf("Propose rejects by %+v, the conditions are %+v", r, got.Conditions)
			}
		}
		passes := func(r *Request, host ID) bool {
			one := *q
			one.Request, one.Limit = r, 1<<20
			for _, c := range propose(t, table, &one).Candidates {
				if c.Host == host {
					return true
				}
			}
			return false
		}
		if got.Passed == 0 && got.Hosts > 0 {
			refused++
		}
		last := 0.0
		for _, m := range got.Nearest {
			if m.Cost < last {
				t.Fatalf("%+v comes after one of cost %v", m, last)
			}
			last = m.Cost
			if passes(q.Request, m.Host) {
				t.Fatalf("%+v passes", m)
			}
			if !m.Changeable {
				continue
			}
			changed++
			several += bit2int(len(m.Misses) > 1)
			if !passes(q.Request.Relaxed(m.Misses), m.Host) {
				t.Fatalf("%+v does not pass without its misses", m)
			}
			for i, x := range m.Misses {
				if len(m.Misses) > 1 && passes(q.Request.Relaxed(slices.Delete(slices.Clone(m.Misses), i, i+1)), m.Host) {
					t.Fatalf("%+v passes also with %+v", m, x)
				}
				if x.Asked > 0 && x.Most > 0 {
					amounts++
					more := slices.Clone(m.Misses)
					more[i].Most++
					if passes(q.Request.Relaxed(more), m.Host) && q.Request.Tree == nil && q.Request.Fallback == nil && x.Most < x.Asked {
						t.Fatalf("%+v passes also with one more of %+v", m, x)
					}
				}
			}
		}
	})
	t.Logf("%d refused, %d changes tried, %d of several conditions, %d amounts", refused, changed, several, amounts)
	for _, n := range []int{refused, changed, several, amounts} {
		if n == 0 {
			t.Error("the fleets drawn show too little")
		}
	}
}

// A host that is not among the nearest, or is later, needs no smaller change.
func TestNearMisses_AmountsAndTraits_NearestFirst(t *testing.T) {
	host := func(i int, ram int64, traits ...string) Host {
		return Host{
			UUID: fleetHost(i), ServiceHost: "h", Traits: traits,
			Resources: []Resource{{Class: "MEMORY_MB", Capacity: ram, MinUnit: 1, MaxUnit: 1 << 40, StepSize: 1}},
		}
	}
	e := NewTable().Edit()
	for i, h := range []Host{
		host(0, 1000, "T0"),      // lacks T1, and 24 MB
		host(1, 512, "T0", "T1"), // lacks 512 MB
		host(2, 900, "T0", "T1"), // lacks 124 MB
		host(3, 4096),            // lacks both traits
		{UUID: fleetHost(4), Disabled: true, Traits: []string{"T0", "T1"}, Resources: host(4, 4096).Resources},
	} {
		h.ServiceHost = string(rune('a' + i))
		e.PutHost(h)
	}
	q := &Query{Request: &Request{Resources: []Amount{{"MEMORY_MB", 1024}}, Required: []string{"T0", "T1"}}, Rules: &Rules{}, Limit: 1, NearMisses: 10}
	p, err := e.Table().Propose(q)
	if err != nil {
		t.Fatal(err)
	}
	got := p.NearMisses
	var order []string
	for _, m := range got.Nearest {
		order = append(order, m.ServiceHost)
	}
	if want := []string{"c", "a", "d", "e"}; !slices.Equal(order, want) { // b has the same misses as c, and lacks more
		t.Errorf("nearest are %v, want %v", order, want)
	}
	first := got.Nearest[0]
	if len(first.Misses) != 1 || first.Misses[0] != (Miss{ResourceFilter, "MEMORY_MB", 1024, 900, 900, BoundFree, 900, true}) || first.Alike != 2 {
		t.Errorf("the nearest is %+v", first)
	}
	want := []Condition{
		{ComputeFilter, "disabled", 1, 1, nil},
		{TraitFilter, "T0", 1, 0, nil},
		{TraitFilter, "T1", 2, 0, nil},
		{ResourceFilter, "MEMORY_MB", 3, 2, []BoundCount{{BoundFree, 3, 1000, 1024}}},
	}
	if !reflect.DeepEqual(got.Conditions, want) {
		t.Errorf("conditions %+v, want %+v", got.Conditions, want)
	}
}

func BenchmarkNearMisses(b *testing.B) {
	e := NewTable().Edit()
	for _, h := range benchHosts(10_000) {
		e.PutHost(h)
	}
	table, q := e.Table(), benchQuery()
	q.Request.Required, q.NearMisses = append(q.Request.Required, "NOWHERE"), 10
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.Propose(q); err != nil {
			b.Fatal(err)
		}
	}
}

// Each bound of an inventory is named and counted apart from what is free, with the value of the
// nearest host.
func TestNearMisses_BoundsOfInventories_AreNamedAndCounted(t *testing.T) {
	e := NewTable().Edit()
	for i, r := range []Resource{
		{Capacity: 1000, MaxUnit: 100},
		{Capacity: 1000, MaxUnit: 200, Used: 900}, // MaxUnit counts, not what is free
		{Capacity: 1000, MaxUnit: 1000, MinUnit: 300},
		{Capacity: 1000, MaxUnit: 1000, MinUnit: 400},
		{Capacity: 1000, MaxUnit: 1000, StepSize: 50},
		{Capacity: 1000, MaxUnit: 1000, Used: 990},
		{Capacity: 1000, MaxUnit: 1000, Used: 980},
	} {
		r.Class, r.MinUnit, r.StepSize = "MEMORY_MB", max(r.MinUnit, 1), max(r.StepSize, 1)
		e.PutHost(Host{UUID: fleetHost(i), ServiceHost: string(rune('a' + i)), Resources: []Resource{r}})
	}
	p, err := e.Table().Propose(&Query{Request: &Request{Resources: []Amount{{"MEMORY_MB", 201}}}, Rules: &Rules{}, Limit: 1, NearMisses: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := []BoundCount{{BoundMax, 2, 200, 201}, {BoundMin, 2, 300, 201}, {BoundFree, 2, 20, 201}, {BoundStep, 1, 50, 201}}
	if got := p.NearMisses.Conditions; len(got) != 1 || !reflect.DeepEqual(got[0].Bounds, want) {
		t.Errorf("conditions %+v, want bounds %+v", got, want)
	}
}
