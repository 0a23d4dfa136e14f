package schedule

import (
	"iter"
	"math/bits"
	"slices"

	"cellgate/internal/python"
)

// Tree is what a request asks of a host's whole tree of providers. Without a Tree everything is asked of the root.
type Tree struct {
	// Required and Forbidden are the traits of the request and its fallback that belong to the unsuffixed group.
	// Required ones must be on the providers of Resources together; forbidden ones on none of them. All other traits
	// are the root's; so, too, are those in Both.
	Required  []string
	Forbidden []string
	Both      []string
	// Groups are the suffixed groups; each is on one provider.
	Groups []ResourceGroup
	// Isolate is group_policy=isolate: no two groups are on one provider.
	Isolate bool
	// SameSubtree lists sets of suffixes. Of the providers of a set's groups, one must be an ancestor of the others,
	// or the same.
	SameSubtree [][]string
}

// ResourceGroup is a request to one provider. It may have no Resources if a set of SameSubtree names it. Suffixes are
// unique and not empty.
type ResourceGroup struct {
	Suffix    string
	Resources []Amount
	Required  []string
	Forbidden []string
	// MemberOf: the provider is in at least one aggregate of each set (uuids). ForbiddenAggregates: in none. Only the
	// root is in aggregates.
	MemberOf            [][]string
	ForbiddenAggregates []string
	// InTree, unless zero, must be a provider of the host's tree, the root or any other. It requires Resources.
	InTree ID
}

// Provider is a child provider of a host.
type Provider struct {
	UUID ID
	// Parent is the root, or a child earlier in the list.
	Parent    ID
	Traits    []string
	Resources []Resource
}

// TreeFilter looks in a host's tree of providers for what the root alone does not have, and for the groups. It runs
// after all other filters, wherever it is named, and with ResourceFilter even if it is not named. A table that does
// not know trees refuses rules that name it.
const TreeFilter = "TreeFilter"

// spreads reports whether a trait belongs to the unsuffixed group alone, not to the root; of is Required or
// Forbidden.
func (t *Tree) spreads(trait string, of []string) bool {
	return slices.Contains(of, trait) && !slices.Contains(t.Both, trait)
}

// groups reports whether there are suffixed groups.
func (t *Tree) groups() bool { return t != nil && len(t.Groups) > 0 }

var errTooManyWays = python.NewException("TimeoutError", "too many ways to place groups on providers")

// treeFilter adds the checks of TreeFilter. Without groups it only judges hosts that passed some check because of
// their children.
func (s *scan) treeFilter() {
	q := s.q.Request
	var somewhere []pass
	if q.Tree != nil {
		var classes []string
		amounts := map[string][]int64{}
		for i := range q.Tree.Groups {
			g := &q.Tree.Groups[i]
			for _, a := range g.Resources {
				if amounts[a.Class] == nil {
					classes = append(classes, a.Class)
				}
				amounts[a.Class] = append(amounts[a.Class], a.N)
			}
			for _, t := range g.Required {
				somewhere = append(somewhere, s.traitSomewhere(t))
			}
		}
		for _, class := range classes {
			s.check(TreeFilter, class, s.roomSomewhere(class, amounts[class]))
		}
	}
	s.check(TreeFilter, "", func(at int, c *chunk, m uint64) uint64 {
		look := m
		if !q.Tree.groups() {
			look &= s.spread
		}
		for _, p := range somewhere {
			look &= p(at, c, look)
		}
		if q.Tree.groups() {
			m = look
		}
		for ; look != 0; look &= look - 1 {
			bit, r := look&-look, c.rows.v[bits.TrailingZeros64(look)]
			ok, err := s.trees.fits(r, q, judging{})
			if err != nil {
				s.unreadable |= bit
				s.raised(TreeFilter, r, err)
			}
			if !ok {
				m &^= bit
			}
		}
		return m
	})
}

// traitSomewhere keeps the hosts where some provider has the trait.
func (s *scan) traitSomewhere(t string) pass {
	root, child := s.t.names.traits.id(t), s.t.names.childTraits.id(t)
	return func(_ int, c *chunk, _ uint64) uint64 {
		return has(c.labels.traits, root) | has(c.labels.childTraits, child)
	}
}

// roomSomewhere keeps the hosts with room for the groups' amounts of a class: each amount on some provider, and their
// sum on all providers together.
func (s *scan) roomSomewhere(class string, amounts []int64) pass {
	root, child := s.rootRoom(Amount{class, slices.Min(amounts)}), s.t.names.childClasses.id(class)
	total := int64(0)
	for _, n := range amounts {
		total += n
	}
	slices.Sort(amounts)
	amounts = slices.Compact(amounts)
	return func(at int, c *chunk, m uint64) (kept uint64) {
		for look := m & (root(at, c, m) | has(c.labels.childClasses, child)); look != 0; look &= look - 1 {
			bit, r := look&-look, c.rows.v[bits.TrailingZeros64(look)]
			if r.room(class) >= total && !slices.ContainsFunc(amounts, func(n int64) bool { return !r.fitsSomewhere(Amount{class, n}) }) {
				kept |= bit
			}
		}
		return kept
	}
}

// plenty is more than all groups of a request ask for.
const plenty = 1 << 40

// room is an upper bound of how much of a class all providers of the host's tree can still give.
func (r *row) room(class string) (n int64) {
	for x, used := range r.inventories(class, true) {
		n += min(max(0, most(x, used)), plenty)
	}
	return n
}

// inventories yields the inventories of a class, and how much of each is used: the root's and, with children, its
// children's.
func (r *row) inventories(class string, children bool) iter.Seq2[*Resource, int64] {
	return func(yield func(*Resource, int64) bool) {
		of := func(resources []Resource, used []int64) bool {
			i := slices.IndexFunc(resources, func(x Resource) bool { return x.Class == class })
			return i < 0 || yield(&resources[i], used[i])
		}
		if !of(r.host.Resources, r.used) || !children {
			return
		}
		for i := range r.host.Children {
			if !of(r.host.Children[i].Resources, r.childUsed[i]) {
				return
			}
		}
	}
}

// fitsSomewhere reports whether some provider of the host's tree has room for an amount.
func (r *row) fitsSomewhere(a Amount) bool {
	for x, used := range r.inventories(a.Class, true) {
		if x.fits(a.N, used) {
			return true
		}
	}
	return false
}
