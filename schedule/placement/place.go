package placement

import "slices"

// place puts the slots order[n:] on providers, in all possible ways, and emits the requests of this round.
func (s *search) place(n int) error {
	if n == len(s.order) {
		return s.finish()
	}
	sl := &s.slots[s.order[n]]
	for _, o := range sl.options {
		if s.steps++; s.steps > s.q.maxSteps() {
			return &BoundError{Steps: s.q.maxSteps(), Root: s.tree.Root().UUID}
		}
		sl.pick = o
		if !s.allowed(n) {
			continue
		}
		if err := s.place(n + 1); err != nil || s.full || s.more {
			return err
		}
	}
	return nil
}

// finish counts a way to place all slots, and emits it if it is in this round.
func (s *search) finish() error {
	if s.unsuffixed > 0 && !s.pickedTraits() {
		return nil
	}
	if s.count >= s.to {
		s.more = true
		return nil
	}
	s.count++
	if s.count <= s.from {
		return nil
	}
	s.pick = s.pick[:0]
	for i := range s.slots {
		s.pick = append(s.pick, s.slots[i].pick)
	}
	if s.keep = s.keep && len(s.found) < keptPicks*len(s.slots); s.keep {
		s.found = append(s.found, s.pick...)
	}
	return s.emit(s.pick)
}

func (s *search) pickedTraits() bool {
	for i := range s.slots {
		if g := s.slots[i].group; g.Suffix == "" {
			return s.haveTraits(g, func(sl *slot, has func(*Provider) bool) bool { return has(s.provider(sl.pick)) })
		}
	}
	return true
}

// allowed reports whether the pick of slot order[n] is compatible with those before it.
func (s *search) allowed(n int) bool {
	at := s.order[n]
	sl := &s.slots[at]
	for _, i := range s.order[:n] {
		o := &s.slots[i]
		if o.pick == sl.pick {
			if s.q.Isolate && o.group.Suffix != "" && sl.group.Suffix != "" {
				return false
			}
		} else if !s.q.Nested && len(o.amounts) > 0 && len(sl.amounts) > 0 && s.treeOf(o.pick) == s.treeOf(sl.pick) {
			return false
		}
	}
	for i := range sl.amounts {
		if sl.amounts[i].several && !s.sumHolds(sl, &sl.amounts[i], n) {
			return false
		}
	}
	for _, set := range s.subtreesOf[at] {
		if !s.subtreePossible(s.subtrees[set], n) {
			return false
		}
	}
	return true
}

// sumHolds reports whether a provider has room for all amounts of a class that the picked groups take. Placement does
// not check min_unit and step_size of sums.
func (s *search) sumHolds(sl *slot, a *amount, n int) bool {
	left := s.provider(sl.pick).Inventory(a.class).room() - a.n
	for _, i := range s.order[:n] {
		if o := &s.slots[i]; o.pick == sl.pick {
			for j := range o.amounts {
				if o.amounts[j].class == a.class {
					left -= o.amounts[j].n
				}
			}
		}
	}
	return left >= 0
}

// subtreePossible reports whether one provider of the slots, picked or still an option, is at or above all picked
// ones.
func (s *search) subtreePossible(slots []int, n int) bool {
	aboveAll := func(top option) bool {
		return !slices.ContainsFunc(slots, func(i int) bool { return slices.Contains(s.order[:n+1], i) && !s.below(s.slots[i].pick, top) })
	}
	return slices.ContainsFunc(slots, func(i int) bool {
		if slices.Contains(s.order[:n+1], i) {
			return aboveAll(s.slots[i].pick)
		}
		return slices.ContainsFunc(s.slots[i].options, aboveAll)
	})
}

// below reports whether top is p or an ancestor of p.
func (s *search) below(p, top option) bool {
	tree := s.treeOf(p)
	if tree != s.treeOf(top) {
		return false
	}
	at, above := s.number(p), s.number(top)
	return above <= at && at < tree.ends[above]
}

func (s *search) treeOf(o option) *Tree {
	if o.sharing >= 0 {
		return s.sharers[o.sharing].tree
	}
	return s.tree
}

// number is the number of an option's provider in its tree.
func (s *search) number(o option) int32 {
	if o.sharing >= 0 {
		return s.sharers[o.sharing].provider
	}
	return o.own
}
