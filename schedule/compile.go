package schedule

import "fmt"

// scan is one query under way over a table.
type scan struct {
	t *Table
	// before is the table without the query's takes.
	before  *Table
	q       *Query
	nova    *NovaRequest
	options *Options
	checks  []check
	// counts, when set, takes how many hosts of the chunk at hand each check
	// rejects.
	counts []uint8
	// beyond: some check or weigher reads more than the chunk at hand and what a
	// ground has.
	beyond bool
	// unreadable is for a check to say which hosts it could not judge.
	unreadable uint64
	exceptions []NovaException
	// nested: TreeFilter is to run. spread are the hosts of the chunk at hand that
	// passed some check by what their children have.
	nested bool
	spread uint64
	trees  treeSearch
	// late are the filters that judge the providers of PCI devices, in their order.
	late []string
	// configured: ConfiguredExpressionFilter is to run; expression: ExpressionFilter.
	configured, expression bool
	// asked are of the weighers by expressions.
	asked []*expressionWeights
	// spent is what expressions cost so far.
	spent    int
	warned   []warned
	weighers []weigher
	// members of the request's group, by slot.
	members []memberCount
	// varied: hosts may have multipliers of their own, those of the weighers
	// overridden; ofSet has the class of each set of overrides met, plus 1.
	varied     bool
	overridden []int
	ofSet      []int
	classes    []class
	scratch    []float64
	// active are the weighers that can change an order, under the bounds
	// ranked by; columns and terms are room for theirs in the chunk at hand.
	active  []int
	columns []*column
	terms   []term
	best    topK
	// limiters are of the filters that run, in their order.
	limiters []limiter
}

// pass gives the hosts of a chunk that pass. It may look at those in m alone; bits
// outside m do not matter.
type pass func(at int, c *chunk, m uint64) uint64

// check is one thing a filter asks, of a chunk's hosts at once. One that would
// pass every host of any table is not made.
type check struct {
	filter string
	// detail says what of the filter; empty when it asks one thing only.
	detail   string
	pass     pass
	rejected int
	// unreadable counts the hosts rejected for which Nova raises an exception;
	// example is one of them.
	unreadable int
	example    *row
}

// compile turns a query into checks and weighers on this table.
func (t *Table) compile(q *Query, before *Table) (*scan, error) {
	s := &scan{
		t: t, before: before, q: q, nova: q.Request.nova(), options: q.Rules.options(), members: t.countMembers(q),
	}
	filters := q.Rules.filters()
	s.checks = make([]check, 0, len(filters)+len(q.Request.Resources)+len(q.Request.Required))
	for i, f := range filters {
		if !s.addFilter(f) {
			return nil, bad(fmt.Sprintf("Rules.Filters[%d]", i), "%q is not a filter", f)
		}
	}
	if s.nested {
		s.treeFilter()
	}
	s.judgeDevices()
	if s.configured {
		s.expressionFilter(ConfiguredExpressionFilter, q.Rules.Expression)
	}
	if s.expression {
		s.expressionFilter(ExpressionFilter, q.Request.Expression)
	}
	weighers := q.Rules.weighers()
	s.weighers = make([]weigher, len(weighers))
	for i, w := range weighers {
		if !s.setWeigher(i, w) {
			return nil, bad(fmt.Sprintf("Rules.Weighers[%d].Name", i), "%q is not a weigher", w.Name)
		}
	}
	s.setClasses()
	s.active = make([]int, 0, len(weighers))
	s.columns = make([]*column, len(weighers))
	s.terms = make([]term, 0, len(weighers))
	s.best.limit = q.Limit
	return s, nil
}

// addFilter adds a filter's checks; false when there is no such filter. Filters
// that Nova would not run for the request add none.
func (s *scan) addFilter(name string) bool {
	add, ok := filters[name]
	if !ok {
		return false
	}
	r := s.q.Request
	switch {
	case r.Forced() && !placements[name]:
	case s.nova.Rebuild && !onRebuild[name]:
	default:
		add(s)
	}
	return true
}

func (s *scan) check(filter, detail string, p pass) {
	s.checks = append(s.checks, check{filter: filter, detail: detail, pass: p})
}
