package schedule

import "slices"

// Fallback replaces a request's Resources, Required and Forbidden on hosts that do not pass those. It is the second
// query that Nova makes for dedicated CPUs (nova/scheduler/manager.py, select_destinations). Nova always makes both,
// and lists the second answer after the first. So each host can be judged by itself, without knowledge of other
// cells.
type Fallback struct {
	// Resources, Required and Forbidden are as in Request.
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

// own gives what only the request's own query asks for, and what only the fallback asks for.
func (f *Fallback) own(r *Request) (first, second Fallback) {
	first = Fallback{differing(r.Resources, f.Resources), differing(r.Required, f.Required), differing(r.Forbidden, f.Forbidden)}
	second = Fallback{differing(f.Resources, r.Resources), differing(f.Required, r.Required), differing(f.Forbidden, r.Forbidden)}
	return first, second
}

// eitherDetail names the classes that only one of the two queries asks for.
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

// either keeps the hosts that pass one of the two queries. Traits that only one of them asks for are part of it.
func (s *scan) either(f *Fallback) {
	first, second := f.own(s.q.Request)
	one, other := s.passing(&first), s.passing(&second)
	s.check(ResourceFilter, eitherDetail(&first, &second), func(at int, c *chunk, m uint64) uint64 {
		kept := m & one(at, c, m)
		return kept | other(at, c, m&^kept)
	})
}

// passing keeps the hosts that pass everything in f.
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
