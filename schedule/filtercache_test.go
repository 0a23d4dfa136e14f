package schedule

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
)

// A FilterCache answers like the table, whatever changed between two queries, and in whatever order
// versions of a table are queried.
func TestFilterCache_AnyQuery_AnswersAsItsTable(t *testing.T) {
	norace.Skip(t, norace.Pure)
	var kept, found, passed, overridden, ranked int
	propChecks(t, 400)
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<40).Draw(t, "seed"), 11))
		m := &model{hosts: map[ID]Host{}, consumers: naiveConsumers{}}
		readable := rng.IntN(4) > 0
		edited := func(table *Table, times int) *Table {
			e := table.Edit()
			for range times {
				randomEdit(rng, e, m)
			}
			for id, h := range m.hosts {
				if readable && h.Facts != nil && h.Facts.Failed != nil {
					e.RemoveHost(id)
				}
			}
			return e.Table()
		}
		tables := []*Table{edited(NewTable(), 150)}
		q := drawQuery(t, m.fleet())
		if rng.IntN(4) > 0 {
			q.Request.Group, q.TentativePlacements = nil, nil
		}
		if q.Rules.Options != nil {
			q.Rules.Options.StrictNova = rng.IntN(8) == 0
		}
		if rng.IntN(4) > 0 {
			// These weighers raise for some hosts.
			q.Rules.Weighers = slices.DeleteFunc(slices.Clone(q.Rules.weighers()), func(w Weigher) bool {
				return w.Name == CPUWeigher || w.Name == MetricsWeigher
			})
			q.Known = nil
		}
		cache := NewFilterCache(q.Request, q.Rules)
		for range rapid.IntRange(1, 12).Draw(t, "queries") {
			table := tables[len(tables)-1]
			switch rng.IntN(4) {
			case 0:
				table = oneOf(rng, tables)
			case 1, 2:
				table = edited(table, oneOf(rng, []int{1, 3, 30}))
				tables = append(tables, table)
			}
			ask := *q
			ask.Seed, ask.Limit, ask.Forecast = rng.Uint64N(4), oneOf(rng, []int{1, 3, 10, 1000}), rng.IntN(4)
			switch rng.IntN(3) {
			case 0:
				ask.Known = nil
			case 1:
				ask.Known = randomStats(rng, q.Rules, func() string { return "host-1" })
			}
			q.Known = ask.Known // the next query may repeat it
			cache.skip = 0
			got, err := cache.Propose(table, &ask)
			if err != nil {
				t.Fatalf("Propose: %v", err)
			}
			if want := propose(t, table, &ask); !reflect.DeepEqual(got, want) {
				t.Fatalf("query %+v\nrequest %+v\nrules %+v\nknown %+v\ngot  %+v\nwant %+v", ask, *q.Request, *q.Rules, ask.Known, got, want)
			}
			if cache.scan != nil {
				kept++
				passed += min(got.Passed, 1)
				overridden += min(len(got.Multipliers), 1)
				ranked += min(len(cache.scan.active), 1)
			}
			found++
		}
	})
	t.Logf("%d answers, %d of what was kept: with a host that passed %d, with multipliers of aggregates %d, weighed %d", found, kept, passed, overridden, ranked)
	if kept == 0 || passed == 0 || overridden == 0 || ranked == 0 {
		t.Error("too few of what the test is about")
	}
}

// The table answers a query of another request, and refuses a bad one.
func TestFilterCache_OtherRequest_AnsweredByTheTable(t *testing.T) {
	table := (&fleet{hosts: []Host{{UUID: fleetHost(1), ServiceHost: "a"}}}).table()
	rules := &Rules{}
	cache := NewFilterCache(&Request{}, rules)
	other := &Query{Request: &Request{Required: []string{"NOWHERE"}}, Rules: rules, Limit: 1}
	if p, err := cache.Propose(table, other); err != nil || p.Passed != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []*Query{
		{Request: cache.request, Rules: rules},
		{Request: cache.request, Rules: rules, Limit: 1, Known: &GlobalStats{Bounds: []Bounds{{}}}},
	} {
		if _, err := cache.Propose(table, bad); err == nil {
			t.Error("a bad query has an answer")
		}
	}
	named := &Rules{Filters: []string{"NoFilter"}}
	if _, err := NewFilterCache(&Request{}, named).Propose(table, &Query{Request: &Request{}, Rules: named, Limit: 1}); err == nil {
		t.Error("a filter that there is none of has an answer")
	}
}
