package schedule

import (
	"slices"
	"strings"
)

// traitFilter requires every required trait, no forbidden trait (detail: the trait with "!" before it, as Placement
// writes it), and one trait of each set of AnyOf (detail: the traits with "|" between them). No host matches an empty
// set. If there is a fallback, ResourceFilter checks the traits that only one of the two queries asks for.
func (s *scan) traitFilter() {
	r, names := s.q.Request, &s.t.names.traits
	fallback := r.Fallback
	for _, t := range r.Required {
		if fallback == nil || slices.Contains(fallback.Required, t) {
			s.check(TraitFilter, t, s.hasTrait(t))
		}
	}
	for _, t := range r.Forbidden {
		if fallback != nil && !slices.Contains(fallback.Forbidden, t) {
			continue
		}
		if lacks := s.lacksTrait(t); lacks != nil {
			s.check(TraitFilter, "!"+t, lacks)
		}
	}
	for i, ids := range names.sets(r.AnyOf) {
		s.check(TraitFilter, strings.Join(r.AnyOf[i], "|"), func(_ int, c *chunk, _ uint64) uint64 {
			return hasAny(c.labels.traits, ids)
		})
	}
}

// hasTrait keeps the hosts whose root has the trait. For traits of the unsuffixed group it also keeps hosts whose
// children have it; TreeFilter decides about these.
func (s *scan) hasTrait(t string) pass {
	id, child := s.t.names.traits.id(t), s.t.names.childTraits.id(t)
	root := func(_ int, c *chunk, _ uint64) uint64 { return has(c.labels.traits, id) }
	if tree := s.q.Request.Tree; tree == nil || child < 0 || !tree.spreads(t, tree.Required) {
		return root
	}
	s.nested = true
	return func(_ int, c *chunk, m uint64) uint64 {
		kept := m & has(c.labels.traits, id)
		return kept | s.byChildren(m&^kept&has(c.labels.childTraits, child))
	}
}

// lacksTrait is nil if no host's root has the trait. A root with a trait that is forbidden to the unsuffixed group
// may stay if its children have all that is asked.
func (s *scan) lacksTrait(t string) pass {
	id := s.t.names.traits.id(t)
	if id < 0 {
		return nil
	}
	if tree := s.q.Request.Tree; tree == nil || !tree.spreads(t, tree.Forbidden) {
		return func(_ int, c *chunk, _ uint64) uint64 { return ^has(c.labels.traits, id) }
	}
	s.nested = true
	return func(_ int, c *chunk, m uint64) uint64 {
		bad := m & has(c.labels.traits, id)
		if bad == 0 {
			return m
		}
		return m&^bad | s.byChildren(bad&s.childrenHave(c))
	}
}

// childrenHave gives the hosts whose children have every class that the request or its fallback asks of the
// unsuffixed group.
func (s *scan) childrenHave(c *chunk) uint64 {
	all := func(amounts []Amount) uint64 {
		m := c.valid
		for _, a := range amounts {
			m &= has(c.labels.childClasses, s.t.names.childClasses.id(a.Class))
		}
		return m
	}
	m := all(s.q.Request.Resources)
	if f := s.q.Request.Fallback; f != nil {
		m |= all(f.Resources)
	}
	return m
}
