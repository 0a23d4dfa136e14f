package schedule

import "fmt"

// scan is the state of one query on a table.
type scan struct {
	t *Table
	// before is the table without the query's tentative placements.
	before  *Table
	q       *Query
	nova    *NovaRequest
	options *Options
	checks  []check
	// counts, unless nil, receives how many hosts of the current chunk each check rejects.
	counts []uint8
	// beyond: some check or weigher reads more than the current chunk and the ground (see FilterCache).
	beyond bool
	// unreadable is set by a check: the hosts that it could not judge.
	unreadable uint64
	exceptions []NovaException
	// nested: TreeFilter runs. spread are the hosts of the current chunk that passed some check only because their
	// children may have what it asks.
	nested bool
	spread uint64
	trees  treeSearch
	// late are the filters that judge the providers of PCI devices, in their configured order.
	late []string
	// configured: ConfiguredExpressionFilter runs; expression: ExpressionFilter runs.
	configured, expression bool
	// asked are the weights of the weighers by expressions.
	asked []*expressionWeights
	// spent is the cost of expressions so far.
	spent int
	// halted: a search was ended by stop, so results are wrong.
	halted   bool
	warned   []warned
	weighers []weigher
	// members are the hosts with members of the request's group, by slot.
	members []memberCount
	// varied: hosts may have their own multipliers. overridden are the weighers whose multiplier may differ; ofSet
	// is, by set of overrides, its class plus 1, or 0 if not known yet.
	varied     bool
	overridden []int
	ofSet      []int
	classes    []class
	scratch    []float64
	// active are the weighers that can change the order under the ranking bounds. columns and terms are buffers for
	// their parts in the current chunk.
	active  []int
	columns []*column
	terms   []term
	best    topK
	// limiters are those of the filters that run, in order.
	limiters []limiter
}

// pass gives the hosts of a chunk that pass. It may skip hosts outside m; their bits are ignored.
type pass func(at int, c *chunk, m uint64) uint64

// check is one condition of a filter, for all hosts of a chunk at once. A check that passes every host of any table
// is not made.
type check struct {
	filter string
	// detail names the condition; empty if the filter has only one.
	detail   string
	pass     pass
	rejected int
	// unreadable counts the rejected hosts for which Nova raises an exception; example is one of them.
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

// addFilter adds a filter's checks; false if the filter does not exist. Filters that Nova would not run for the
// request add none.
func (s *scan) addFilter(name string) bool {
	f, ok := filters[name]
	if ok && (f.forced || !s.q.Request.Forced()) && (f.onRebuild || !s.nova.Rebuild) {
		f.add(s)
	}
	return ok
}

func (s *scan) check(filter, detail string, p pass) {
	s.checks = append(s.checks, check{filter: filter, detail: detail, pass: p})
}
