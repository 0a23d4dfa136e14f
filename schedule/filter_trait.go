package schedule

import "strings"

// traitFilter asks for every required trait, for no forbidden one (detail: the
// trait with "!" before it, as Placement writes it), and for one of each set of
// AnyOf (detail: the set, with "|" between). An empty set has none to have.
func (s *scan) traitFilter() {
	r, names := s.q.Request, &s.t.names.traits
	for _, t := range r.Required {
		id := names.id(t)
		s.check(TraitFilter, t, func(_ int, c *chunk, _ uint64) uint64 { return has(c.labels.traits, id) })
	}
	for _, t := range r.Forbidden {
		id := names.id(t)
		if id < 0 {
			continue // no host has it
		}
		s.check(TraitFilter, "!"+t, func(_ int, c *chunk, _ uint64) uint64 { return ^has(c.labels.traits, id) })
	}
	for i, ids := range names.sets(r.AnyOf) {
		s.check(TraitFilter, strings.Join(r.AnyOf[i], "|"), func(_ int, c *chunk, _ uint64) uint64 {
			return hasAny(c.labels.traits, ids)
		})
	}
}
