package schedule

import (
	"slices"

	"cellgate/internal/python"
)

// aggregateFilter requires one aggregate of each set of MemberOf, and none of the forbidden ones (Placement's
// member_of). An empty set matches no host. It also applies the member_of that Nova's request filters add: an
// aggregate of the tenant, and no isolated aggregate.
func (s *scan) aggregateFilter() {
	r, names := s.q.Request, &s.t.names.aggregates
	if len(r.MemberOf) > 0 {
		sets := names.sets(r.MemberOf)
		s.check(AggregateFilter, "", func(_ int, c *chunk, m uint64) uint64 {
			for _, set := range sets {
				m &= hasAny(c.labels.aggregates, set)
			}
			return m
		})
	}
	if len(r.ForbiddenAggregates) > 0 {
		forbidden := names.sets([][]string{r.ForbiddenAggregates})[0]
		s.check(AggregateFilter, "forbidden", func(_ int, c *chunk, _ uint64) uint64 {
			return ^hasAny(c.labels.aggregates, forbidden)
		})
	}
	if r.Tenant != "" {
		s.perSet(AggregateFilter, "tenant", func(a *aggregateSet) (bool, *python.Exception) {
			return slices.Contains(a.tenants, r.Tenant), nil
		})
	}
	if r.Isolated != nil {
		s.perSet(AggregateFilter, "isolated", func(a *aggregateSet) (bool, *python.Exception) {
			for _, trait := range a.needs {
				if !slices.Contains(r.Isolated.Traits, trait) {
					return false, nil
				}
			}
			return true, nil
		})
	}
}

// sets gives the ids of known names; names that no host has are left out.
func (s *series) sets(names [][]string) [][]int {
	out := make([][]int, len(names))
	for i, set := range names {
		for _, n := range set {
			if id := s.id(n); id >= 0 {
				out[i] = append(out[i], id)
			}
		}
	}
	return out
}

// hasAny is the union of the words of some ids.
func hasAny(words []uint64, ids []int) (m uint64) {
	for _, id := range ids {
		m |= has(words, id)
	}
	return m
}
