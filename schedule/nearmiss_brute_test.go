package schedule

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
	"cellgate/internal/testlong"
)

// changesOf lists every change that Relaxed can make to a request. Each amount is a change of its
// own.
func changesOf(r *Request) [][]Miss {
	var kinds [][]Miss
	one := func(filter, detail string) { kinds = append(kinds, []Miss{{Filter: filter, Detail: detail}}) }
	for _, a := range r.Resources {
		var amounts []Miss
		for n := range a.N {
			if m := (Miss{Filter: ResourceFilter, Detail: a.Class, Asked: a.N, Most: n}); r.canRelax(&m) {
				amounts = append(amounts, m)
			}
		}
		if len(amounts) > 0 {
			kinds = append(kinds, amounts)
		}
	}
	traits := slices.Clone(r.Required)
	for _, t := range r.Forbidden {
		traits = append(traits, "!"+t)
	}
	for _, set := range r.AnyOf {
		traits = append(traits, strings.Join(set, "|"))
	}
	if f := r.Fallback; f != nil {
		traits = append(traits, f.Required...)
		for _, t := range f.Forbidden {
			traits = append(traits, "!"+t)
		}
	}
	slices.Sort(traits)
	for _, t := range slices.Compact(traits) {
		one(TraitFilter, t)
	}
	nova := r.nova()
	asks := map[string]bool{
		ZoneFilter: r.AvailabilityZone != "", AffinityFilter: r.Group != nil && r.Group.Policy == Affinity,
		AntiAffinityFilter: r.Group != nil && r.Group.Policy == AntiAffinity, NUMAFilter: nova.NUMA != nil, PCIFilter: len(nova.PCI) > 0,
		ExpressionFilter: r.Expression != nil, CapabilitiesFilter: len(nova.Flavor.ExtraSpecs) > 0, ImageFilter: nova.Image != nil,
		AggregateFilter: len(r.MemberOf) > 0,
	}
	for filter, hint := range hintOf {
		asks[filter] = slices.ContainsFunc(nova.Hints, func(h Hint) bool { return h.Name == hint })
	}
	for _, filter := range slices.Sorted(maps.Keys(asks)) {
		if asks[filter] {
			one(filter, "")
		}
	}
	if len(r.ForbiddenAggregates) > 0 {
		one(AggregateFilter, "forbidden")
	}
	if m := (Miss{Filter: HostFilter, Detail: namedHosts}); r.canRelax(&m) {
		one(m.Filter, m.Detail)
	}
	for i := range kinds {
		for k := range kinds[i] {
			kinds[i][k].Changeable = true
		}
	}
	return kinds
}

// Brute force over the whole fleet: no combination of changes that costs less than the nearest host's lets a host pass.
// If no host has a change of the request, no combination lets a host pass.
func TestNearMisses_SmallFleets_NoSmallerChangeFits(t *testing.T) {
	norace.Skip(t, norace.Pure)
	const most = 50_000 // a request with more combinations is left out
	want := testlong.Or(30, 1000)
	propChecks(t, 2*want)
	var refused, tried, several, hopeless, skipped int
	rapid.Check(t, func(t *rapid.T) {
		f := drawFleet(t)
		f.keep(8)
		table := f.table()
		q := drawQuery(t, f)
		q.Known, q.TentativePlacements, q.Request.Fallback = nil, nil, nil
		// Filters with conditions of the listed kinds, and filters whose conditions a request
		// cannot change.
		q.Rules.Filters = append(slices.Clone(DefaultFilters()), NUMAFilter, PCIFilter, DifferentHostFilter, SameHostFilter, CIDRFilter, JSONFilter)
		q.NearMisses = 1 << 30
		p := propose(t, table, q)
		q.NearMisses = 0
		if p.Passed > 0 || p.Hosts == 0 {
			return
		}
		first, changeable := Change{Cost: operatorCost}, false
		if n := p.NearMisses.Changes; len(n) > 0 {
			first, changeable = n[0], true
		}
		checkChanges(t, 0, p.NearMisses.Changes, func(misses []Miss) bool {
			one := *q
			one.Request = q.Request.Relaxed(misses)
			return propose(t, table, &one).Passed > 0
		})
		kinds := changesOf(q.Request)
		combinations := 1
		for _, k := range kinds {
			combinations = min(combinations*(1+len(k)), most+1)
		}
		if combinations > most {
			skipped++
			return
		}
		refused++
		several += bit2int(len(first.Misses) > 1)
		hopeless += bit2int(!changeable)
		var misses []Miss
		var try func(at int, cost float64)
		try = func(at int, cost float64) {
			if cost > first.Cost-1e-9 {
				return
			}
			if at == len(kinds) {
				tried++
				one := *q
				one.Request = q.Request.Relaxed(misses)
				if propose(t, table, &one).Passed > 0 {
					t.Fatalf("cost %v, but %v of %+v is enough; nearest %+v", first.Cost, cost, misses, p.NearMisses.Nearest)
				}
				return
			}
			try(at+1, cost)
			for i := range kinds[at] {
				misses = append(misses, kinds[at][i])
				try(at+1, cost+kinds[at][i].cost())
				misses = misses[:len(misses)-1]
			}
		}
		try(0, 0)
	})
	t.Logf("%d refused requests, %d combinations tried, %d of several conditions, %d without a change, %d left out", refused, tried, several, hopeless, skipped)
	if refused < want || several == 0 || hopeless == 0 || skipped > refused/10 {
		t.Error("the fleets drawn show too little")
	}
}

// keep drops all hosts but the first n, with their consumers.
func (f *fleet) keep(n int) {
	if len(f.hosts) <= n {
		return
	}
	f.hosts = f.hosts[:n]
	for id, c := range f.consumers {
		if !slices.ContainsFunc(f.hosts, func(h Host) bool { return h.UUID == c.Host }) {
			delete(f.consumers, id)
		}
	}
}
