package schedule

import (
	"math/bits"
	"slices"
)

// resourceFilter requires every amount: used + n <= capacity, min_unit <= n <= max_unit, and n a multiple of
// step_size (Placement's rule). A host without the class has nothing of it.
//
// With a fallback, what only one of the two questions asks is one check.
func (s *scan) resourceFilter() {
	fallback := s.q.Request.Fallback
	s.nested = s.nested || s.q.Request.Tree.groups()
	for _, a := range s.q.Request.Resources {
		if fallback == nil || slices.Contains(fallback.Resources, a) {
			s.check(ResourceFilter, a.Class, s.hasRoom(a))
		}
	}
	if fallback != nil {
		s.either(fallback)
	}
}

// hasRoom keeps the hosts whose root has room for an amount of the unsuffixed group, and those whose children may
// have it. TreeFilter decides about the latter.
func (s *scan) hasRoom(a Amount) pass {
	root := s.rootRoom(a)
	child := s.t.names.childClasses.id(a.Class)
	if s.q.Request.Tree == nil || child < 0 {
		return root
	}
	s.nested = true
	return func(at int, c *chunk, m uint64) uint64 {
		kept := m & root(at, c, m)
		return kept | s.byChildren(m&^kept&has(c.labels.childClasses, child))
	}
}

// byChildren records the hosts of the current chunk that pass only because their children may have what is asked.
func (s *scan) byChildren(m uint64) uint64 {
	s.spread |= m
	return m
}

// rootRoom keeps the hosts whose root has room for an amount.
func (s *scan) rootRoom(a Amount) pass {
	id := s.t.names.classes.id(a.Class)
	return func(_ int, c *chunk, m uint64) uint64 {
		if id < 0 || id >= len(c.classes) || c.classes[id] == nil {
			return 0
		}
		return c.fits(c.classes[id], a, m)
	}
}

// fits keeps the hosts of m where an amount fits.
func (c *chunk) fits(l *limits, a Amount, m uint64) uint64 {
	if a.N > l.hi {
		return 0
	}
	if a.N > l.lo {
		m &= l.atLeast(a.N)
	}
	for odd := m & l.odd; odd != 0; odd &= odd - 1 {
		i := bits.TrailingZeros64(odd)
		if !c.rows.v[i].divides(a) {
			m &^= 1 << i
		}
	}
	return m
}

// divides checks an amount against min_unit and step_size.
func (r *row) divides(a Amount) bool {
	for i := range r.host.Resources {
		res := &r.host.Resources[i]
		if res.Class == a.Class {
			return a.N >= res.MinUnit && (res.StepSize <= 1 || a.N%res.StepSize == 0)
		}
	}
	return false
}
