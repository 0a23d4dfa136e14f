package placement

import (
	"cmp"
	"maps"
	"slices"
)

// slot is what must come from one provider: a group with a suffix, or one class of the group without.
type slot struct {
	group   *Group
	amounts []amount
	// inTree is the index of the tree that the group names; -1 for none.
	inTree int
	// shareable reports, by number, which sharing providers can serve the slot in another tree.
	shareable []bool
	// options are those in the searched tree; pick is the option being tried.
	options []option
	pick    option
}

type amount struct {
	class string
	n     int64
	// several: more than one group asks for the class, so sums must be checked.
	several bool
}

// option is a provider that can serve a slot.
type option struct {
	// sharing is the number of a sharer of another tree. If it is -1, own is the number of a provider in the searched
	// tree.
	sharing, own int32
}

// sharer is a provider that shares by aggregates.
type sharer struct {
	tree     *Tree
	treeAt   int
	provider int32
}

// search is one call of Candidates.
type search struct {
	q     *Query
	trees []*Tree
	slots []slot
	// order is the order of slots in the searched tree, those with the fewest options first.
	order []int
	// unsuffixed is the number of slots of the group without a suffix.
	unsuffixed int
	// subtrees are the slots of each set of SameSubtrees; subtreesOf are the sets of each slot.
	subtrees, subtreesOf [][]int
	// treesNamed: a group names a tree, so trees of equal shape differ.
	treesNamed bool
	sharers    []sharer
	// sharersIn are the numbers of the sharers in an aggregate.
	sharersIn map[string][]int32

	// from and to bound the requests of each tree in this round; hasMore are the trees with more after it.
	from, to int
	hasMore  []bool
	equal    map[shape]*outcome

	// The searched tree: its index, the number of requests counted, and the picks found if they are kept.
	at         int
	tree       *Tree
	count      int
	more, keep bool
	found      []option
	pick       []option
	// shared are the sharers that share with the tree; room is findRoom's buffer.
	shared, room []int32

	steps int
	answer
}

// newSearch prepares a search; false if there can be no candidate.
func newSearch(trees []*Tree, q *Query) (*search, bool) {
	s := &search{q: q, trees: trees, hasMore: make([]bool, len(trees))}
	s.answer.init(q, trees)
	groupsOf := map[string]int{}
	for i := range q.Groups {
		for class := range q.Groups[i].Resources {
			groupsOf[class]++
		}
	}
	slotOf := make(map[string]int, len(q.Groups))
	for i := range q.Groups {
		g := &q.Groups[i]
		inTree := -1
		if g.InTree != "" {
			if inTree = s.findTree(g.InTree); inTree < 0 {
				return nil, false
			}
			s.treesNamed = true
		}
		var amounts []amount
		for _, class := range slices.Sorted(maps.Keys(g.Resources)) {
			amounts = append(amounts, amount{class, g.Resources[class], groupsOf[class] > 1})
		}
		if g.Suffix != "" {
			slotOf[g.Suffix] = len(s.slots)
			s.slots = append(s.slots, slot{group: g, amounts: amounts, inTree: inTree})
			continue
		}
		s.unsuffixed = len(amounts)
		for j := range amounts {
			s.slots = append(s.slots, slot{group: g, amounts: amounts[j : j+1], inTree: inTree})
		}
	}
	s.subtreesOf = make([][]int, len(s.slots))
	for i, set := range q.SameSubtrees {
		var slots []int
		for _, suffix := range set {
			slots = append(slots, slotOf[suffix])
			s.subtreesOf[slotOf[suffix]] = append(s.subtreesOf[slotOf[suffix]], i)
		}
		s.subtrees = append(s.subtrees, slots)
	}
	for i := range s.slots {
		s.order = append(s.order, i)
	}
	s.findSharers()
	return s, len(s.slots) > 0
}

func (s *search) findTree(uuid string) int {
	return slices.IndexFunc(s.trees, func(t *Tree) bool {
		return slices.ContainsFunc(t.providers, func(p Provider) bool { return p.UUID == uuid })
	})
}

func (s *search) findSharers() {
	for i, t := range s.trees {
		for _, p := range t.sharing {
			s.sharers = append(s.sharers, sharer{t, i, p})
		}
	}
	if len(s.sharers) == 0 {
		return
	}
	s.sharersIn = map[string][]int32{}
	useful := make([]bool, len(s.sharers))
	for i := range s.slots {
		sl := &s.slots[i]
		sl.shareable = make([]bool, len(s.sharers))
		for n, sh := range s.sharers {
			sl.shareable[n] = sl.canBeShared(sh)
			useful[n] = useful[n] || sl.shareable[n]
		}
	}
	for n, sh := range s.sharers {
		if useful[n] {
			for _, a := range sh.tree.providers[sh.provider].Aggregates {
				s.sharersIn[a] = append(s.sharersIn[a], int32(n))
			}
		}
	}
}

// canBeShared reports whether a sharing provider can serve the slot in another tree, apart from the group's
// conditions on that tree's root.
func (sl *slot) canBeShared(sh sharer) bool {
	p := &sh.tree.providers[sh.provider]
	if sl.group.Suffix != "" {
		return sl.namesTree(sh.treeAt) && sl.suits(p) && hasRoom(p, sl.amounts)
	}
	return sl.inTree < 0 && !sl.group.Traits.hasForbidden(p.Traits) && sl.group.Aggregates.matches(p.Aggregates) && hasRoom(p, sl.amounts)
}

// namesTree reports whether the group allows providers of a tree. Placement ignores in_tree of a group without
// resources.
func (sl *slot) namesTree(tree int) bool {
	return sl.inTree < 0 || sl.inTree == tree || len(sl.amounts) == 0
}

// suits reports whether a provider with enough room can serve a group with a suffix. A group without resources must
// require something: Placement finds no provider otherwise.
func (sl *slot) suits(p *Provider) bool {
	g := sl.group
	if len(sl.amounts) == 0 && len(g.Traits.AnyOf)+len(g.Aggregates.AnyOf) == 0 {
		return false
	}
	return g.Traits.matches(p.Traits) && g.Aggregates.matches(p.Aggregates)
}

func hasRoom(p *Provider, amounts []amount) bool {
	for i := range amounts {
		if inv := p.Inventory(amounts[i].class); inv == nil || !inv.fits(amounts[i].n) {
			return false
		}
	}
	return true
}

// collectOptions collects the slots' options in the tree; false if some slot has none.
func (s *search) collectOptions() bool {
	s.shared = s.shared[:0]
	if len(s.sharersIn) > 0 {
		s.collectShared()
	}
	root := s.tree.Root()
	for i := range s.slots {
		sl := &s.slots[i]
		sl.options = sl.options[:0]
		g := sl.group
		if g.Suffix != "" {
			s.collectSuffixed(sl)
		} else if !g.Aggregates.hasForbidden(root.Aggregates) {
			s.collectUnsuffixed(sl, root)
		}
		if len(sl.options) == 0 {
			return false
		}
	}
	// The order depends on the tree alone, so every round counts its requests in the same order.
	slices.SortFunc(s.order, func(a, b int) int {
		return cmp.Or(len(s.slots[a].options)-len(s.slots[b].options), a-b)
	})
	return s.traitsReachable()
}

func (s *search) collectSuffixed(sl *slot) {
	if sl.namesTree(s.at) {
		for _, n := range s.findRoom(sl) {
			if sl.suits(&s.tree.providers[n]) {
				sl.options = append(sl.options, option{-1, n})
			}
		}
	}
	s.addShared(sl)
}

func (s *search) collectUnsuffixed(sl *slot, root *Provider) {
	if sl.namesTree(s.at) {
		g := sl.group
		inRoot := g.Aggregates.hasAll(root.Aggregates)
		for _, n := range s.findRoom(sl) {
			p := &s.tree.providers[n]
			if !g.Traits.hasForbidden(p.Traits) && !g.Aggregates.hasForbidden(p.Aggregates) && (inRoot || g.Aggregates.hasAll(p.Aggregates)) {
				sl.options = append(sl.options, option{-1, n})
			}
		}
	}
	s.addShared(sl)
}

// findRoom lists the providers of the tree that have all that the slot asks for, or all providers if it asks for
// nothing. The list is valid until the next call.
func (s *search) findRoom(sl *slot) []int32 {
	s.room = s.room[:0]
	if len(sl.amounts) == 0 {
		for i := range s.tree.providers {
			s.room = append(s.room, int32(i))
		}
		return s.room
	}
	for _, st := range s.tree.stocksOf(sl.amounts[0].class) {
		if st.fits(sl.amounts[0].n) && hasRoom(&s.tree.providers[st.provider], sl.amounts[1:]) {
			s.room = append(s.room, st.provider)
		}
	}
	return s.room
}

func (s *search) addShared(sl *slot) {
	for _, n := range s.shared {
		if sl.shareable[n] {
			sl.options = append(sl.options, option{n, -1})
		}
	}
}

// collectShared finds the sharers of other trees that share with this one, each once.
func (s *search) collectShared() {
	for i := range s.tree.providers {
		for _, a := range s.tree.providers[i].Aggregates {
			for _, n := range s.sharersIn[a] {
				if s.sharers[n].treeAt != s.at && !slices.Contains(s.shared, n) {
					s.shared = append(s.shared, n)
				}
			}
		}
	}
}

// traitsReachable reports whether the options of the group without a suffix have all its required traits between
// them.
func (s *search) traitsReachable() bool {
	for i := range s.slots {
		if g := s.slots[i].group; g.Suffix == "" {
			return s.haveTraits(g, func(sl *slot, has func(*Provider) bool) bool {
				return slices.ContainsFunc(sl.options, func(o option) bool { return has(s.provider(o)) })
			})
		}
	}
	return true
}

// haveTraits reports whether, for each set of required traits of the group without a suffix, find finds one in some
// slot.
func (s *search) haveTraits(g *Group, find func(sl *slot, has func(*Provider) bool) bool) bool {
	for _, set := range g.Traits.AnyOf {
		has := func(p *Provider) bool {
			return slices.ContainsFunc(set, func(t string) bool { return contains(p.Traits, t) })
		}
		if !slices.ContainsFunc(s.order, func(i int) bool { return s.slots[i].group == g && find(&s.slots[i], has) }) {
			return false
		}
	}
	return true
}

func (s *search) provider(o option) *Provider {
	if o.sharing >= 0 {
		sh := &s.sharers[o.sharing]
		return &sh.tree.providers[sh.provider]
	}
	return &s.tree.providers[o.own]
}
