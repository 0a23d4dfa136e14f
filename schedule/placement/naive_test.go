package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// naive answers like Placement 8.0.0, step by step and by enumeration (placement/objects/allocation_candidate.py and
// research_context.py).
func naive(trees []*Tree, q *Query) (*Result, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	n := &naiveSearch{q: q, parents: map[*Provider]*Provider{}, roots: map[*Provider]*Provider{}, trees: map[*Provider]*Tree{}}
	for _, t := range trees {
		byUUID := map[string]*Provider{}
		for i := range t.providers {
			byUUID[t.providers[i].UUID] = &t.providers[i]
		}
		n.trees[t.Root()] = t
		for i := range t.providers {
			p := &t.providers[i]
			n.all = append(n.all, p)
			n.roots[p] = t.Root()
			if p.Parent != "" {
				n.parents[p] = byUUID[p.Parent]
			}
		}
	}
	return n.run(), nil
}

type naiveSearch struct {
	q              *Query
	all            []*Provider
	parents, roots map[*Provider]*Provider
	trees          map[*Provider]*Tree
}

// naiveChoice is Placement's AllocationRequest before the groups are merged.
type naiveChoice struct {
	anchor *Provider
	takes  []Allocation
	of     []*Provider
}

func (n *naiveSearch) run() *Result {
	choices := make([][]naiveChoice, len(n.q.Groups))
	for i := range n.q.Groups {
		g := &n.q.Groups[i]
		if g.InTree != "" && !slices.ContainsFunc(n.all, func(p *Provider) bool { return p.UUID == g.InTree }) {
			return &Result{}
		}
		if g.Suffix == "" {
			choices[i] = n.unsuffixed(g)
		} else {
			choices[i] = n.suffixed(g)
		}
	}
	out, seen := &Result{}, map[string]bool{}
	for _, root := range n.all {
		if n.roots[root] != root {
			continue
		}
		var pick []naiveChoice
		var next func(i int)
		next = func(i int) {
			if i < len(choices) {
				for _, c := range choices[i] {
					if c.anchor == root {
						pick = append(pick, c)
						next(i + 1)
						pick = pick[:i]
					}
				}
				return
			}
			if r, ok := n.merge(pick); ok && !seen[requestText(&r)] {
				seen[requestText(&r)] = true
				out.Requests = append(out.Requests, r)
			}
		}
		if len(choices) > 0 {
			next(0)
		}
	}
	if n.q.Limit > 0 && len(out.Requests) > n.q.Limit {
		out.Requests = out.Requests[:n.q.Limit]
	}
	used := map[*Provider]bool{}
	for _, r := range out.Requests {
		for _, a := range r.Allocations {
			if !n.q.Nested {
				used[a.Provider] = true
				continue
			}
			t := n.trees[n.roots[a.Provider]]
			for i := range t.providers {
				used[&t.providers[i]] = true
			}
		}
	}
	for _, p := range n.all {
		if used[p] {
			out.Providers = append(out.Providers, p)
		}
	}
	return out
}

// withRoom are the providers with room for the group's amount of the class, in the group's tree if
// it names one.
func (n *naiveSearch) withRoom(g *Group, class string) map[*Provider]bool {
	out := map[*Provider]bool{}
	for _, p := range n.all {
		inv := p.Inventory(class)
		if inv != nil && inv.fits(g.Resources[class]) && n.inTree(p, g) {
			out[p] = true
		}
	}
	return out
}

func (n *naiveSearch) inTree(p *Provider, g *Group) bool {
	return g.InTree == "" || slices.ContainsFunc(n.all, func(o *Provider) bool { return o.UUID == g.InTree && n.roots[o] == n.roots[p] })
}

// anchors are the roots of trees that have a provider in an aggregate of p.
func (n *naiveSearch) anchors(p *Provider) map[*Provider]bool {
	out := map[*Provider]bool{}
	for _, o := range n.all {
		if slices.ContainsFunc(o.Aggregates, func(a string) bool { return slices.Contains(p.Aggregates, a) }) {
			out[n.roots[o]] = true
		}
	}
	return out
}

func shares(p *Provider) bool { return slices.Contains(p.Traits, SharingTrait) }

func (n *naiveSearch) anchorAllowed(root *Provider) bool { return n.q.RootTraits.matches(root.Traits) }

func (n *naiveSearch) unsuffixed(g *Group) []naiveChoice {
	type pair struct{ p, anchor *Provider }
	var out []naiveChoice
	classes := slices.Sorted(maps.Keys(g.Resources))
	byClass := make([]map[pair]bool, len(classes))
	for i, class := range classes {
		byClass[i] = map[pair]bool{}
		for p := range n.withRoom(g, class) {
			byClass[i][pair{p, n.roots[p]}] = true
			if shares(p) && g.InTree == "" && g.Aggregates.hasAll(p.Aggregates) {
				for a := range n.anchors(p) {
					byClass[i][pair{p, a}] = true
				}
			}
		}
		maps.DeleteFunc(byClass[i], func(x pair, _ bool) bool {
			in := g.Aggregates.hasAll(x.p.Aggregates) || g.Aggregates.hasAll(x.anchor.Aggregates)
			bad := g.Aggregates.hasForbidden(x.p.Aggregates) || g.Aggregates.hasForbidden(x.anchor.Aggregates)
			return !n.anchorAllowed(x.anchor) || !in || bad
		})
	}
	for _, root := range n.all {
		if n.roots[root] != root {
			continue
		}
		var pick []Allocation
		var next func(i int)
		next = func(i int) {
			if i == len(classes) {
				var traits []string
				for _, a := range pick {
					if g.Traits.hasForbidden(a.Provider.Traits) {
						return
					}
					traits = append(traits, a.Provider.Traits...)
				}
				slices.Sort(traits)
				if g.Traits.hasAll(traits) {
					out = append(out, naiveChoice{anchor: root, takes: slices.Clone(pick), of: providersOf(pick)})
				}
				return
			}
			for _, p := range n.all {
				if byClass[i][pair{p, root}] {
					pick = append(pick, Allocation{p, classes[i], g.Resources[classes[i]]})
					next(i + 1)
					pick = pick[:i]
				}
			}
		}
		if len(classes) > 0 {
			next(0)
		}
	}
	return out
}

func providersOf(takes []Allocation) []*Provider {
	var out []*Provider
	for _, a := range takes {
		if !slices.Contains(out, a.Provider) {
			out = append(out, a.Provider)
		}
	}
	return out
}

func (n *naiveSearch) suffixed(g *Group) []naiveChoice {
	var out []naiveChoice
	for _, p := range n.all {
		if !g.Traits.matches(p.Traits) || !g.Aggregates.matches(p.Aggregates) {
			continue
		}
		// Placement finds the providers of a group without resources by required traits and aggregates alone; it
		// ignores in_tree.
		if len(g.Resources) == 0 && len(g.Traits.AnyOf)+len(g.Aggregates.AnyOf) == 0 {
			continue
		}
		room := true
		var takes []Allocation
		for _, class := range slices.Sorted(maps.Keys(g.Resources)) {
			room = room && n.withRoom(g, class)[p]
			takes = append(takes, Allocation{p, class, g.Resources[class]})
		}
		if !room {
			continue
		}
		anchors := map[*Provider]bool{n.roots[p]: true}
		if shares(p) {
			maps.Copy(anchors, n.anchors(p))
		}
		for a := range anchors {
			if n.anchorAllowed(a) {
				out = append(out, naiveChoice{anchor: a, takes: takes, of: []*Provider{p}})
			}
		}
	}
	return out
}

// merge joins one choice of each group into a request, unless the sum or the query forbids it.
func (n *naiveSearch) merge(pick []naiveChoice) (Request, bool) {
	var r Request
	var alone []*Provider
	for i, c := range pick {
		g := &n.q.Groups[i]
		r.Mappings = append(r.Mappings, Mapping{g.Suffix, c.of})
		if g.Suffix != "" {
			if n.q.Isolate && slices.Contains(alone, c.of[0]) {
				return r, false
			}
			alone = append(alone, c.of[0])
		}
		for _, a := range c.takes {
			at := slices.IndexFunc(r.Allocations, func(o Allocation) bool { return o.Provider == a.Provider && o.Class == a.Class })
			if at < 0 {
				r.Allocations = append(r.Allocations, a)
				continue
			}
			r.Allocations[at].Amount += a.Amount
		}
	}
	for _, a := range r.Allocations {
		if a.Amount > a.Provider.Inventory(a.Class).room() {
			return r, false
		}
	}
	for _, set := range n.q.SameSubtrees {
		var of []*Provider
		for _, m := range r.Mappings {
			if slices.Contains(set, m.Suffix) {
				of = append(of, m.Providers...)
			}
		}
		if len(of) > 0 && !slices.ContainsFunc(of, func(top *Provider) bool {
			return !slices.ContainsFunc(of, func(p *Provider) bool { return !n.below(p, top) })
		}) {
			return r, false
		}
	}
	if !n.q.Nested {
		roots := map[*Provider]*Provider{}
		for _, a := range r.Allocations {
			if other := roots[n.roots[a.Provider]]; other != nil && other != a.Provider {
				return r, false
			}
			roots[n.roots[a.Provider]] = a.Provider
		}
	}
	return r, true
}

// below reports whether top is p or an ancestor of p.
func (n *naiveSearch) below(p, top *Provider) bool {
	for ; p != nil; p = n.parents[p] {
		if p == top {
			return true
		}
	}
	return false
}

// requestText gives the same text for equal requests, and only for these.
func requestText(r *Request) string {
	var takes, mapped []string
	for _, a := range r.Allocations {
		takes = append(takes, fmt.Sprintf("%s %s=%d", a.Provider.UUID, a.Class, a.Amount))
	}
	for _, m := range r.Mappings {
		var of []string
		for _, p := range m.Providers {
			of = append(of, p.UUID)
		}
		slices.Sort(of)
		mapped = append(mapped, m.Suffix+":"+strings.Join(of, ","))
	}
	slices.Sort(takes)
	slices.Sort(mapped)
	return strings.Join(takes, "; ") + " | " + strings.Join(mapped, " ")
}
