package schedule

import "slices"

// maxTreeSteps bounds how many providers are tried for groups and classes of one
// host; a search that takes more ends as unreadable.
const maxTreeSteps = 50_000

// treeSearch looks for an allocation candidate of one host, by Placement's rules
// (placement/objects/allocation_candidate.py): each suffixed group of one provider
// that has all of its traits, the unsuffixed one class by class of any of the tree,
// and what is taken of one provider within its capacity and max_unit together. The
// naive way makes every combination and then looks; here groups are placed one
// after the other, back again where it does not go on, the root first.
//
// The zero value is ready; it is used again from host to host.
type treeSearch struct {
	q         *Request
	ask       Fallback
	providers []treeProvider
	// of is the provider of each group, then of each of ask.Resources.
	of    []int
	steps int
}

// treeProvider is one of the host's: the root first.
type treeProvider struct {
	*Provider
	parent int
	used   []int64
	// taken is what this allocation has of each of Resources so far.
	taken []int64
	// groups is how many suffixed groups are of it.
	groups int
}

// allocation gives what an instance of the request takes of the host; nil when that
// is the request's Resources of the root. ok is false when there is none, hard when
// that was not found out.
func (s *treeSearch) allocation(r *row, q *Request) (a *Allocation, ok, hard bool) {
	for i, f := range []*Fallback{{q.Resources, q.Required, q.Forbidden}, q.Fallback} {
		if f == nil {
			break
		}
		if !q.Tree.groups() && r.rootFits(f.Resources, f.Required, f.Forbidden) {
			if i == 0 {
				return nil, true, false
			}
			return r.atRoot(f.Resources), true, false
		}
		if q.Tree == nil || !q.Tree.groups() && len(r.host.Children) == 0 {
			continue
		}
		s.begin(r, q, f)
		if s.rootTraits() && s.place(0) {
			return s.found(), true, false
		}
		hard = hard || s.steps > maxTreeSteps
	}
	return nil, false, hard
}

func (s *treeSearch) begin(r *row, q *Request, f *Fallback) {
	h := r.host
	s.q, s.ask, s.steps = q, *f, 0
	s.of = append(s.of[:0], make([]int, len(q.Tree.Groups)+len(f.Resources))...)
	s.providers = append(s.providers[:0], treeProvider{
		Provider: &Provider{UUID: h.UUID, Traits: h.Traits, Resources: h.Resources}, parent: -1,
		used: r.used, taken: make([]int64, len(h.Resources)),
	})
	for i := range h.Children {
		c := &h.Children[i]
		parent := slices.IndexFunc(s.providers, func(p treeProvider) bool { return p.UUID == c.Parent })
		s.providers = append(s.providers, treeProvider{
			Provider: c, parent: max(parent, 0), used: r.childUsed[i], taken: make([]int64, len(c.Resources)),
		})
	}
}

// rootTraits reports whether the root has the traits that are asked of it.
func (s *treeSearch) rootTraits() bool {
	root := s.providers[0].Traits
	for _, t := range s.ask.Required {
		if !s.q.Tree.spreads(t, s.q.Tree.Required) && !slices.Contains(root, t) {
			return false
		}
	}
	for _, t := range s.ask.Forbidden {
		if !s.q.Tree.spreads(t, s.q.Tree.Forbidden) && slices.Contains(root, t) {
			return false
		}
	}
	return true
}

// place finds providers for the groups, then for the classes, from the at-th on.
func (s *treeSearch) place(at int) bool {
	groups := s.q.Tree.Groups
	switch {
	case at == len(s.of):
		return s.together()
	case at >= len(groups):
		a := s.ask.Resources[at-len(groups) : at-len(groups)+1]
		for p := range s.providers {
			if s.lacksAll(p, s.ask.Forbidden) && s.takes(at, p, a) {
				return true
			}
		}
		return false
	}
	g := &groups[at]
	for p := s.first(at); p < len(s.providers); p++ {
		x := &s.providers[p]
		if s.q.Tree.Isolate && x.groups > 0 || !qualifies(x.Traits, g.Required, g.Forbidden) {
			continue
		}
		s.of[at] = p
		if !s.subtrees(at) {
			continue
		}
		x.groups++
		if s.takes(at, p, g.Resources) {
			return true
		}
		x.groups--
	}
	return false
}

// first is where to begin with a group: one that asks for the same as the group
// before it, and is bound to no other, need not go through the same places in
// another order.
func (s *treeSearch) first(at int) int {
	if at == 0 {
		return 0
	}
	a, b := &s.q.Tree.Groups[at-1], &s.q.Tree.Groups[at]
	if !slices.Equal(a.Resources, b.Resources) || !slices.Equal(a.Required, b.Required) || !slices.Equal(a.Forbidden, b.Forbidden) {
		return 0
	}
	for _, set := range s.q.Tree.SameSubtree {
		if slices.Contains(set, a.Suffix) || slices.Contains(set, b.Suffix) {
			return 0
		}
	}
	return s.of[at-1]
}

// takes takes amounts of a provider, each once, and goes on; what it took is given
// back when that fails.
func (s *treeSearch) takes(at, p int, amounts []Amount) bool {
	if s.steps++; s.steps > maxTreeSteps {
		return false
	}
	x := &s.providers[p]
	for _, a := range amounts {
		i := slices.IndexFunc(x.Resources, func(res Resource) bool { return res.Class == a.Class })
		if i < 0 {
			return false
		}
		res, more := &x.Resources[i], x.taken[i]+a.N
		if !res.fits(a.N, x.used[i]) || more > most(res, x.used[i]) {
			return false
		}
	}
	x.take(amounts, 1)
	s.of[at] = p
	if s.place(at + 1) {
		return true
	}
	x.take(amounts, -1)
	return false
}

func (x *treeProvider) take(amounts []Amount, n int64) {
	for _, a := range amounts {
		for i := range x.Resources {
			if x.Resources[i].Class == a.Class {
				x.taken[i] += n * a.N
			}
		}
	}
}

func qualifies(traits, required, forbidden []string) bool {
	for _, t := range required {
		if !slices.Contains(traits, t) {
			return false
		}
	}
	for _, t := range forbidden {
		if slices.Contains(traits, t) {
			return false
		}
	}
	return true
}

// lacksAll reports whether a provider has none of the unsuffixed group's forbidden
// traits.
func (s *treeSearch) lacksAll(p int, forbidden []string) bool {
	for _, t := range forbidden {
		if slices.Contains(s.q.Tree.Forbidden, t) && slices.Contains(s.providers[p].Traits, t) {
			return false
		}
	}
	return true
}

// together reports whether the providers of the unsuffixed group have its required
// traits between them.
func (s *treeSearch) together() bool {
	for _, t := range s.ask.Required {
		if !slices.Contains(s.q.Tree.Required, t) {
			continue
		}
		if !slices.ContainsFunc(s.of[len(s.q.Tree.Groups):], func(p int) bool { return slices.Contains(s.providers[p].Traits, t) }) {
			return false
		}
	}
	return true
}

// subtrees judges the sets of same_subtree of which the at-th group is the last one
// placed.
func (s *treeSearch) subtrees(at int) bool {
	for _, set := range s.q.Tree.SameSubtree {
		var of []int
		last := -1
		for i := range s.q.Tree.Groups {
			if slices.Contains(set, s.q.Tree.Groups[i].Suffix) {
				last = i
				if i <= at {
					of = append(of, s.of[i])
				}
			}
		}
		if last == at && !slices.ContainsFunc(of, func(top int) bool {
			return !slices.ContainsFunc(of, func(p int) bool { return !s.under(p, top) })
		}) {
			return false
		}
	}
	return true
}

// under reports whether a provider is top, or below it.
func (s *treeSearch) under(p, top int) bool {
	for ; p >= 0; p = s.providers[p].parent {
		if p == top {
			return true
		}
	}
	return false
}

// found writes down what was taken, by provider; the root comes first.
func (s *treeSearch) found() *Allocation {
	a := &Allocation{}
	for p := range s.providers {
		x := &s.providers[p]
		for i, n := range x.taken {
			if n > 0 {
				a.Amounts = append(a.Amounts, ProviderAmount{Provider: x.UUID, Class: x.Resources[i].Class, N: n})
			}
		}
	}
	groups := s.q.Tree.Groups
	if len(s.ask.Resources) > 0 {
		of := slices.Clone(s.of[len(groups):])
		slices.Sort(of)
		m := Mapping{}
		for _, p := range slices.Compact(of) {
			m.Providers = append(m.Providers, s.providers[p].UUID)
		}
		a.Mappings = append(a.Mappings, m)
	}
	for i := range groups {
		a.Mappings = append(a.Mappings, Mapping{Suffix: groups[i].Suffix, Providers: []ID{s.providers[s.of[i]].UUID}})
	}
	return a
}
