package schedule

import "slices"

// Fallback takes the place of a request's Resources, Required and Forbidden on
// hosts that do not pass those: the second query that Nova makes for dedicated
// CPUs (nova/scheduler/manager.py, select_destinations). Nova asks it always, and
// joins both answers with the first one's before the second's: so each host is
// judged for itself, and no cell needs to know of another.
type Fallback struct {
	// Resources as in Request.
	Resources []Amount
	Required  []string
	Forbidden []string
}

// differing gives the values of a that b lacks.
func differing[T comparable](a, b []T) []T {
	var out []T
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}

// own gives what of the request's first question the fallback does not ask, and the
// other way round.
func (f *Fallback) own(r *Request) (first, second Fallback) {
	first = Fallback{differing(r.Resources, f.Resources), differing(r.Required, f.Required), differing(r.Forbidden, f.Forbidden)}
	second = Fallback{differing(f.Resources, r.Resources), differing(f.Required, r.Required), differing(f.Forbidden, r.Forbidden)}
	return first, second
}

// eitherDetail names the classes that only one of the two asks for.
func eitherDetail(first, second *Fallback) string {
	text := ""
	for i, list := range [][]Amount{first.Resources, second.Resources} {
		for k, a := range list {
			switch {
			case k > 0:
				text += ","
			case i > 0 && text != "":
				text += "|"
			}
			text += a.Class
		}
	}
	return text
}

// either passes the hosts that pass one or the other; the traits that only one of
// them asks for are of it.
func (s *scan) either(f *Fallback) {
	first, second := f.own(s.q.Request)
	one, other := s.passing(&first), s.passing(&second)
	s.check(ResourceFilter, eitherDetail(&first, &second), func(at int, c *chunk, m uint64) uint64 {
		kept := m & one(at, c, m)
		return kept | other(at, c, m&^kept)
	})
}

// passing keeps the hosts that pass all of it.
func (s *scan) passing(f *Fallback) pass {
	var all []pass
	for _, t := range f.Required {
		all = append(all, s.hasTrait(t))
	}
	for _, t := range f.Forbidden {
		lacks := s.lacksTrait(t)
		if lacks != nil {
			all = append(all, lacks)
		}
	}
	for _, a := range f.Resources {
		all = append(all, s.hasRoom(a))
	}
	return func(at int, c *chunk, m uint64) uint64 {
		for _, p := range all {
			if m == 0 {
				return 0
			}
			m &= p(at, c, m)
		}
		return m
	}
}
