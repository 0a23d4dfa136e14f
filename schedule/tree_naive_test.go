package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"cellgate/internal/norace"
)

// naiveCandidates makes every combination of providers for the groups and classes of a case, as
// Placement does. It keeps the combinations that Placement's rules allow.
func naiveCandidates(c *treeCase) (found []string) {
	h, r := c.host(), c.asked()
	all := append([]Provider{{UUID: h.UUID, Traits: h.Traits, Resources: h.Resources}}, h.Children...)
	hasAll := func(traits, of []string) bool {
		return !slices.ContainsFunc(of, func(t string) bool { return !slices.Contains(traits, t) })
	}
	hasAny := func(traits, of []string) bool {
		return slices.ContainsFunc(of, func(t string) bool { return slices.Contains(traits, t) })
	}
	if !hasAll(h.Traits, c.Request.RootRequired) || hasAny(h.Traits, c.Request.RootForbidden) {
		return nil
	}
	ancestors := func(p int) (up []ID) {
		for {
			up = append(up, all[p].UUID)
			if p == 0 {
				return up
			}
			p = slices.IndexFunc(all, func(x Provider) bool { return x.UUID == all[p].Parent })
		}
	}
	slots := len(r.Tree.Groups) + len(r.Resources)
	of := make([]int, slots)
	judge := func() {
		a := &Allocation{}
		taken := map[ProviderAmount]int64{}
		take := func(p int, x Amount) bool {
			i := slices.IndexFunc(all[p].Resources, func(res Resource) bool { return res.Class == x.Class })
			taken[ProviderAmount{Provider: all[p].UUID, Class: x.Class}] += x.N
			return i >= 0 && naiveFits(all[p].Resources[i], x)
		}
		for i, g := range r.Tree.Groups {
			p := all[of[i]]
			if len(g.Resources)+len(g.Required)+len(g.MemberOf) == 0 {
				return // Placement refuses such a group
			}
			if !hasAll(p.Traits, g.Required) || hasAny(p.Traits, g.Forbidden) || r.Tree.Isolate && slices.Contains(of[:i], of[i]) {
				return
			}
			in := c.Tree[of[i]].Aggregates
			if slices.ContainsFunc(g.MemberOf, func(set []string) bool { return !hasAny(in, set) }) || hasAny(in, g.ForbiddenAggregates) {
				return
			}
			if n := c.Request.Groups[i].InTree; n != nil && *n >= len(c.Tree) {
				return
			}
			for _, x := range g.Resources {
				if !take(of[i], x) {
					return
				}
			}
			a.Mappings = append(a.Mappings, Mapping{g.Suffix, []ID{p.UUID}})
		}
		var traits []string
		var together []ID
		for i, x := range r.Resources {
			p := of[len(r.Tree.Groups)+i]
			if !take(p, x) || hasAny(all[p].Traits, c.Request.Forbidden) {
				return
			}
			traits = append(traits, all[p].Traits...)
			if !slices.Contains(together, all[p].UUID) {
				together = append(together, all[p].UUID)
			}
		}
		if !hasAll(traits, c.Request.Required) {
			return
		}
		for _, set := range r.Tree.SameSubtree {
			var members []int
			for i, g := range r.Tree.Groups {
				if slices.Contains(set, g.Suffix) {
					members = append(members, of[i])
				}
			}
			if !slices.ContainsFunc(members, func(top int) bool {
				return !slices.ContainsFunc(members, func(p int) bool { return !slices.Contains(ancestors(p), all[top].UUID) })
			}) {
				return
			}
		}
		for key, n := range taken {
			p := all[slices.IndexFunc(all, func(x Provider) bool { return x.UUID == key.Provider })]
			res := p.Resources[slices.IndexFunc(p.Resources, func(x Resource) bool { return x.Class == key.Class })]
			if res.Used+n > res.Capacity || n > res.MaxUnit {
				return
			}
			key.N = n
			a.Amounts = append(a.Amounts, key)
		}
		if len(together) > 0 {
			a.Mappings = append(a.Mappings, Mapping{Providers: together})
		}
		found = append(found, candidate(a))
	}
	var choose func(at int)
	choose = func(at int) {
		if at == slots {
			judge()
			return
		}
		for of[at] = range all {
			choose(at + 1)
		}
		of[at] = 0
	}
	choose(0)
	return found
}

// A tree passes if any combination is allowed, and its allocation is an allowed one.
func TestTreeSearchIsNaive(t *testing.T) {
	norace.Skip(t, norace.Pure)
	passed, grouped := 0, 0
	propChecks(t, 2000)
	rapid.Check(t, func(rt *rapid.T) {
		c := treeCases(rapid.Uint64().Draw(rt, "seed"), 1)[0]
		c.Candidates = naiveCandidates(&c)
		if c.compare(t) {
			passed++
			if len(c.Request.Groups) > 0 {
				grouped++
			}
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
	if passed == 0 || grouped == 0 {
		t.Errorf("%d passed, %d of them with groups: too few", passed, grouped)
	}
}

// Each pick of a request takes from the host's tree. The table places as many instances as a copy
// of the tree has room for.
func TestPicksTakeOfTheTree(t *testing.T) {
	placed := 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 9))
		c := treeCase{Tree: randomTree(rng), Request: randomTreeRequest(rng)}
		if len(c.Tree) > 4 || len(c.Request.Groups) > 2 {
			continue
		}
		h, r := c.host(), c.asked()
		e := NewTable().Edit()
		e.PutHost(h)
		table := e.Table()
		q := &Query{Request: r, Limit: 1, Rules: &Rules{Filters: []string{TraitFilter, ResourceFilter}, Weighers: []Weigher{}}}
		for i := range 4 {
			c.Candidates = naiveCandidates(&c)
			p := propose(t, table, q)
			if (len(p.Candidates) > 0) != (len(c.Candidates) > 0) {
				t.Fatalf("seed %d, instance %d: %d candidates, naive %q", seed, i, len(p.Candidates), c.Candidates)
			}
			if len(p.Candidates) == 0 {
				break
			}
			placed++
			a := p.Candidates[0].Allocation
			if a == nil {
				a = AtRoot(h.UUID, r.Resources)
			}
			for _, x := range a.Amounts {
				for k := range c.Tree {
					if treeProviderID(k) == x.Provider {
						c.Tree[k].Used[x.Class] += x.N
					}
				}
			}
			q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: h.UUID, Instance: testID('i', i)})
		}
	}
	if placed < 100 {
		t.Errorf("%d placed: too few", placed)
	}
}

// A FilterCache answers about trees like a new search.
func TestFilterCache_Trees_AnswersAsAFreshSearch(t *testing.T) {
	norace.Skip(t, norace.Pure)
	passed := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		c := treeCase{Request: randomTreeRequest(rng)}
		rules := &Rules{Filters: []string{TraitFilter, ResourceFilter}, Weighers: []Weigher{{RAMWeigher, 1}}}
		q := &Query{Request: c.asked(), Limit: 20, Rules: rules, Seed: seed}
		put := func(e *Edit, n int) {
			c.Tree = randomTree(rng)
			h := c.host()
			h.UUID, h.ServiceHost = testID('h', n), string(rune('a'+n%26))
			for i := range h.Children {
				if h.Children[i].Parent == treeProviderID(0) {
					h.Children[i].Parent = h.UUID
				}
			}
			h.View.FreeRAMMB = rng.Int64N(8) * 1024
			e.PutHost(h)
		}
		e := NewTable().Edit()
		for n := range 150 {
			put(e, n)
		}
		table, kept := e.Table(), NewFilterCache(q.Request, rules)
		for range 4 {
			got, err := kept.Propose(table, q)
			if err != nil {
				t.Fatal(err)
			}
			want := propose(t, table, q)
			sameProposal(t, q, got, want)
			passed += want.Passed
			e := table.Edit()
			for range 10 {
				put(e, rng.IntN(150))
			}
			if len(want.Candidates) > 0 {
				e.Take(TentativePlacement{Host: want.Candidates[0].Host, Instance: testID('i', 0)}, q.Request)
			}
			table = e.Table()
		}
	}
	if passed < 500 {
		t.Errorf("%d hosts passed: too few", passed)
	}
}
