package schedule

import (
	"slices"
	"strings"
)

// traitFilter asks for every required trait, for no forbidden one (detail: the
// trait with "!" before it, as Placement writes it), and for one of each set of
// AnyOf (detail: the set, with "|" between). An empty set has none to have. What a
// fallback does not ask too, ResourceFilter does.
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

func (s *scan) hasTrait(t string) pass {
	id := s.t.names.traits.id(t)
	return func(_ int, c *chunk, _ uint64) uint64 { return has(c.labels.traits, id) }
}

// lacksTrait is nil when no host has the trait.
func (s *scan) lacksTrait(t string) pass {
	id := s.t.names.traits.id(t)
	if id < 0 {
		return nil
	}
	return func(_ int, c *chunk, _ uint64) uint64 { return ^has(c.labels.traits, id) }
}
