package schedule

import "fmt"

// scan is one query under way over a table.
type scan struct {
	t        *Table
	q        *Query
	checks   []check
	weighers []weigher
	// members of the request's group, by slot.
	members []memberCount
	// active are the weighers that can change an order, under the bounds
	// ranked by; columns and terms are room for theirs in the chunk at hand.
	active  []*weigher
	columns []*column
	terms   []term
	best    topK
}

// check is one thing a filter asks, of a chunk's hosts at once. One that would
// pass every host of any table is not made.
type check struct {
	filter string
	// detail says what of the filter; empty when it asks one thing only.
	detail string
	// pass gives the hosts that pass. It may look at those in m alone; bits
	// outside m do not matter.
	pass     func(at int, c *chunk, m uint64) uint64
	rejected int
}

// compile turns a query into checks and weighers on this table.
func (t *Table) compile(q *Query) (*scan, error) {
	s := &scan{t: t, q: q, members: t.countMembers(q)}
	filters := q.Rules.filters()
	s.checks = make([]check, 0, len(filters)+len(q.Request.Resources)+len(q.Request.Required))
	for i, f := range filters {
		if !s.addFilter(f) {
			return nil, bad(fmt.Sprintf("Rules.Filters[%d]", i), "%q is not a filter", f)
		}
	}
	weighers := q.Rules.weighers()
	s.weighers = make([]weigher, len(weighers))
	for i, w := range weighers {
		if !s.setWeigher(&s.weighers[i], w) {
			return nil, bad(fmt.Sprintf("Rules.Weighers[%d].Name", i), "%q is not a weigher", w.Name)
		}
	}
	s.active = make([]*weigher, 0, len(weighers))
	s.columns = make([]*column, len(weighers))
	s.terms = make([]term, 0, len(weighers))
	s.best.limit = q.Limit
	return s, nil
}

// addFilter adds a filter's checks; false when there is no such filter.
func (s *scan) addFilter(name string) bool {
	switch name {
	case HostFilter:
		s.hostFilter()
	case ComputeFilter:
		s.computeFilter()
	case ZoneFilter:
		s.zoneFilter()
	case AggregateFilter:
		s.aggregateFilter()
	case TraitFilter:
		s.traitFilter()
	case ResourceFilter:
		s.resourceFilter()
	case AntiAffinityFilter:
		s.antiAffinityFilter()
	case AffinityFilter:
		s.affinityFilter()
	default:
		return false
	}
	return true
}

func (s *scan) check(filter, detail string, pass func(at int, c *chunk, m uint64) uint64) {
	s.checks = append(s.checks, check{filter: filter, detail: detail, pass: pass})
}
