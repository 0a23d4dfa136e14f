package placement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Names for random fleets and queries. They are few, so that fleets and queries often share them.
var (
	someClasses    = []string{"VCPU", "MEMORY_MB", "DISK_GB", "SRIOV_NET_VF", "CUSTOM_A"}
	someTraits     = []string{"HW_CPU_X86_AVX", "CUSTOM_RED", "CUSTOM_BLUE", "CUSTOM_GOLD"}
	someAggregates = []string{"aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002", "aaaaaaaa-0000-4000-8000-000000000003"}
)

func chance(r *rand.Rand, of float64) bool { return r.Float64() < of }

func pickOf(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// drawSome draws each name with probability of.
func drawSome(r *rand.Rand, from []string, of float64) (out []string) {
	for _, s := range from {
		if chance(r, of) {
			out = append(out, s)
		}
	}
	return out
}

func providerUUID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// randomFleet has a few small trees, some of them equal, and sharing providers.
func randomFleet(r *rand.Rand) [][]Provider {
	var out [][]Provider
	n, flat, sharing := 0, chance(r, 0.2), chance(r, 0.6)
	for range 2 + r.IntN(5) {
		if len(out) > 0 && chance(r, 0.25) { // an equal tree
			again := slices.Clone(out[r.IntN(len(out))])
			renamed := map[string]string{"": ""}
			for i := range again {
				renamed[again[i].UUID] = providerUUID(n)
				again[i].UUID, again[i].Parent = providerUUID(n), renamed[again[i].Parent]
				again[i].Traits, again[i].Aggregates, again[i].Inventories = slices.Clone(again[i].Traits), slices.Clone(again[i].Aggregates), slices.Clone(again[i].Inventories)
				n++
			}
			out = append(out, again)
			continue
		}
		var t []Provider
		size := 1
		if !flat && chance(r, 0.7) {
			size += r.IntN(5)
		}
		for i := range size {
			p := Provider{UUID: providerUUID(n), Traits: drawSome(r, someTraits, 0.35), Aggregates: drawSome(r, someAggregates, 0.2)}
			if i > 0 {
				p.Parent = t[r.IntN(i)].UUID
			}
			if sharing && chance(r, 0.25) && (i == 0 || chance(r, 0.1)) {
				p.Traits = append(p.Traits, SharingTrait)
			}
			for _, class := range someClasses {
				if chance(r, 0.6) {
					p.Inventories = append(p.Inventories, randomInventory(r, class))
				}
			}
			t = append(t, p)
			n++
		}
		out = append(out, t)
	}
	return out
}

func randomInventory(r *rand.Rand, class string) Inventory {
	inv := Inventory{Class: class, Total: int64(2 + r.IntN(8)), MinUnit: 1, StepSize: 1, AllocationRatio: []float64{1, 1, 1, 1.5, 0.5, 2.25}[r.IntN(6)]}
	inv.MaxUnit = inv.Total
	if chance(r, 0.2) {
		inv.MaxUnit = int64(1 + r.IntN(4))
	}
	if chance(r, 0.15) {
		inv.MinUnit = min(2, inv.MaxUnit)
	}
	if chance(r, 0.15) {
		inv.StepSize = 2
	}
	if chance(r, 0.2) {
		inv.Reserved = r.Int64N(inv.Total)
	}
	if capacity := inv.Capacity(); capacity > 0 && chance(r, 0.4) {
		inv.Used = r.Int64N(capacity + 1)
	}
	return inv
}

func randomTraitFilter(r *rand.Rand, of float64) (f Filter) {
	if chance(r, of) {
		f.AnyOf = append(f.AnyOf, []string{pickOf(r, someTraits)})
		if chance(r, 0.3) {
			f.AnyOf = append(f.AnyOf, []string{pickOf(r, someTraits), pickOf(r, someTraits)})
		}
	}
	if chance(r, of/2) {
		f.Forbidden = append(f.Forbidden, pickOf(r, someTraits))
	}
	return withoutConflicts(f)
}

// withoutConflicts drops sets of which all members are forbidden, since Placement refuses these.
func withoutConflicts(f Filter) Filter {
	f.AnyOf = slices.DeleteFunc(f.AnyOf, func(set []string) bool {
		return !slices.ContainsFunc(set, func(t string) bool { return !slices.Contains(f.Forbidden, t) })
	})
	return f
}

func randomAggregateFilter(r *rand.Rand, of float64) (f Filter) {
	if chance(r, of) {
		f.AnyOf = append(f.AnyOf, drawSome(r, someAggregates, 0.6))
		if chance(r, 0.2) {
			f.AnyOf = append(f.AnyOf, []string{pickOf(r, someAggregates)})
		}
		f.AnyOf = slices.DeleteFunc(f.AnyOf, func(set []string) bool { return len(set) == 0 })
	}
	if chance(r, of/2) {
		f.Forbidden = append(f.Forbidden, pickOf(r, someAggregates))
	}
	return f
}

// randomQuery draws a query that Placement's newest microversion accepts.
func randomQuery(r *rand.Rand, fleet [][]Provider) *Query {
	q := &Query{Nested: !chance(r, 0.15)}
	inTree := func(of float64) string {
		if !chance(r, of) {
			return ""
		}
		if chance(r, 0.05) {
			return providerUUID(9999)
		}
		t := fleet[r.IntN(len(fleet))]
		return t[r.IntN(len(t))].UUID
	}
	amounts := func(most int) map[string]int64 {
		out := map[string]int64{}
		for range 1 + r.IntN(most) {
			out[pickOf(r, someClasses)] = int64(1 + r.IntN(1+r.IntN(3)))
		}
		return out
	}
	if chance(r, 0.75) {
		q.Groups = append(q.Groups, Group{Resources: amounts(3), Traits: randomTraitFilter(r, 0.2), Aggregates: randomAggregateFilter(r, 0.2), InTree: inTree(0.1)})
	}
	var suffixes []string
	for i := range max(0, r.IntN(5)-1) {
		g := Group{Suffix: strconv.Itoa(i + 1), Resources: amounts(2), Traits: randomTraitFilter(r, 0.2), Aggregates: randomAggregateFilter(r, 0.1), InTree: inTree(0.08)}
		suffixes = append(suffixes, g.Suffix)
		q.Groups = append(q.Groups, g)
	}
	if len(q.Groups) == 0 {
		q.Groups = append(q.Groups, Group{Resources: amounts(2)})
	}
	q.Isolate = len(suffixes) > 0 && chance(r, 0.4)
	if q.Nested && chance(r, 0.25) {
		g := Group{Suffix: "_NUMA", Traits: randomTraitFilter(r, 0.8), Aggregates: randomAggregateFilter(r, 0.2), InTree: inTree(0.1)}
		if g.Traits.empty() && g.Aggregates.empty() && g.InTree == "" { // else Placement would see no group
			g.Traits.AnyOf = [][]string{{pickOf(r, someTraits)}}
		}
		q.Groups = append(q.Groups, g)
		q.SameSubtrees = append(q.SameSubtrees, append(drawSome(r, suffixes, 0.7), "_NUMA"))
	}
	if q.Nested && len(suffixes) > 1 && chance(r, 0.3) {
		if set := drawSome(r, suffixes, 0.7); len(set) > 0 {
			q.SameSubtrees = append(q.SameSubtrees, set)
		}
	}
	if q.Nested && chance(r, 0.15) {
		q.RootTraits = randomTraitFilter(r, 0.8)
		for i := range q.RootTraits.AnyOf { // Placement has no any-of here
			q.RootTraits.AnyOf[i] = q.RootTraits.AnyOf[i][:1]
		}
		q.RootTraits = withoutConflicts(q.RootTraits)
	}
	resources := slices.ContainsFunc(q.Groups, func(g Group) bool { return len(g.Resources) > 0 })
	if !resources {
		q.Groups = append(q.Groups, Group{Resources: amounts(1)})
	}
	return q
}

func trees(t testing.TB, fleet [][]Provider) (out []*Tree) {
	for _, providers := range fleet {
		out = append(out, tree(t, slices.Clone(providers)...))
	}
	return out
}

func requestTexts(r *Result) (out []string) {
	for i := range r.Requests {
		out = append(out, requestText(&r.Requests[i]))
	}
	slices.Sort(out)
	return out
}

func providerTexts(r *Result) (out []string) {
	for _, p := range r.Providers {
		out = append(out, p.UUID)
	}
	slices.Sort(out)
	return out
}

// TestCandidates_RandomFleets_AsNaive uses a random seed, or the one in CELLGATE_SEED.
func TestCandidates_RandomFleets_AsNaive(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("CELLGATE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	r := rand.New(rand.NewPCG(seed, 1))
	some, none := 0, 0
	for range 4000 {
		fleet := randomFleet(r)
		all := trees(t, fleet)
		q := randomQuery(r, fleet)
		want, err := naive(all, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Candidates(all, q)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(requestTexts(got), requestTexts(want)) || !slices.Equal(providerTexts(got), providerTexts(want)) {
			t.Fatalf("seed %d: %+v\n of %+v\n gives %q of %v,\n naive: %q of %v", seed, q, fleet, requestTexts(got), providerTexts(got), requestTexts(want), providerTexts(want))
		}
		if len(want.Requests) == 0 {
			none++
			continue
		}
		some++
		checkLimited(t, all, q, want, r)
	}
	if some < 1000 || none < 500 {
		t.Errorf("%d queries with candidates, %d without: too few of a kind", some, none)
	}
}

// checkLimited checks that a limited answer is a part of the whole one, of the right size, and has the providers to
// summarize.
func checkLimited(t *testing.T, all []*Tree, q *Query, whole *Result, r *rand.Rand) {
	t.Helper()
	limited := *q
	limited.Limit = 1 + r.IntN(len(whole.Requests)+1)
	got, err := Candidates(all, &limited)
	if err != nil {
		t.Fatal(err)
	}
	texts, every := requestTexts(got), requestTexts(whole)
	if len(slices.Compact(slices.Clone(texts))) != min(limited.Limit, len(every)) {
		t.Fatalf("%+v of %+v: %d of %d with the limit %d", q, all, len(texts), len(every), limited.Limit)
	}
	for _, text := range texts {
		if !slices.Contains(every, text) {
			t.Fatalf("%+v: %s is none without a limit", q, text)
		}
	}
	var of []string
	for _, req := range got.Requests {
		for _, a := range req.Allocations {
			if !q.Nested {
				of = append(of, a.Provider.UUID)
				continue
			}
			for _, t := range all {
				if slices.ContainsFunc(t.providers, func(p Provider) bool { return p.UUID == a.Provider.UUID }) {
					for i := range t.providers {
						of = append(of, t.providers[i].UUID)
					}
				}
			}
		}
	}
	slices.Sort(of)
	if want := slices.Compact(of); !slices.Equal(providerTexts(got), want) {
		t.Fatalf("%+v: summarizes %v, want %v", limited, providerTexts(got), want)
	}
}
