package schedule

import (
	"math"
	"math/bits"
	"slices"
)

// FilterCache answers queries with one request and rules, each exactly as Table.Propose does, and keeps results
// between queries. Versions of a table share unchanged chunks, so the results for these remain valid. Filters and
// bounds cost only what changed since the last query, and ranking reads only chunks that may have one of the best
// hosts.
//
// If a host's result depends on more than its chunk and the table's names (other instances' hosts, a group's
// members), nothing is kept. Table.Propose answers such queries, and those with tentative placements or near misses.
//
// One goroutine at a time may use it.
type FilterCache struct {
	request *Request
	rules   *Rules
	// never: Table.Propose answers every query of this request. skip is for how many more queries it does so, because
	// some hosts could not be judged.
	never bool
	skip  int

	// scan was compiled on ground; nil if nothing is kept.
	scan   *scan
	ground ground
	// By chunk: the chunk that was judged, and which of its hosts passed.
	chunks []*chunk
	masks  []uint64
	passed int
	// rejected is how many hosts each check rejected, chunk by chunk.
	rejected []uint8
	// own are the bounds of each chunk's hosts that passed, weigher by weigher.
	own []Bounds
	// by and single are the ranking bounds that ceilings are for; single: nothing is weighed.
	by     []Bounds
	single bool
	// ceilings are upper bounds of the weights of each chunk's hosts; NaN: not known.
	ceilings []float64
	ahead    []int
}

// skipped is the number of queries for which a FilterCache keeps nothing after it failed to.
const skipped = 64

// NewFilterCache makes a cache for a request and rules, which must not change.
func NewFilterCache(r *Request, rules *Rules) *FilterCache {
	return &FilterCache{request: r, rules: rules}
}

// Of reports whether a query has the cache's request and rules.
func (k *FilterCache) Of(q *Query) bool { return q.Request == k.request && q.Rules == k.rules }

// Keeps reports whether a FilterCache can keep anything for a request.
func Keeps(r *Request, rules *Rules) bool { return r.Group == nil && !rules.options().StrictNova }

// ground is what checks and weighers are compiled from, besides the query: on equal grounds they are equal.
type ground struct {
	names    catalog
	services pmap[name, slotWords]
	nodes    pmap[name, slotWords]
	withheld *reasons
}

func (t *Table) ground() ground { return ground{t.names, t.services, t.nodes, t.withheld} }

// Bytes is about how much memory the cache takes for a table with that many hosts.
func (k *FilterCache) Bytes(hosts int) int {
	const compiled, perChunk = 16 << 10, 8 + 8 + 8 + 8
	chunks := (hosts + chunkSize - 1) / chunkSize
	checks := len(k.rules.filters()) + len(k.request.Resources) + len(k.request.Required)
	for _, x := range []Expression{k.request.Expression, k.rules.Expression} {
		if x != nil {
			checks += len(x.Details())
		}
	}
	for _, x := range []WeighExpression{k.request.Weigh, k.rules.Weigh} {
		if x != nil {
			checks += 8*chunkSize + 32
		}
	}
	return compiled + chunks*(perChunk+checks+16*len(k.rules.weighers()))
}

// Propose answers a query as t does, whatever its request.
func (k *FilterCache) Propose(t *Table, q *Query) (*Proposal, error) {
	if k.never || !k.Of(q) || len(q.TentativePlacements) > 0 || q.NearMisses > 0 {
		return t.Propose(q)
	}
	if k.skip > 0 {
		k.skip--
		return t.Propose(q)
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if kept, err := k.follow(t, q); err != nil {
		return nil, err
	} else if !kept {
		k.scan, k.skip = nil, skipped
		return t.Propose(q)
	}
	s := k.scan
	s.q = q
	p := &Proposal{Hosts: t.n, Passed: k.passed, Rejects: s.rejects(), Bounds: s.bounds()}
	bounds, single := p.Bounds, k.passed <= 1
	if q.Known != nil && len(q.Known.Bounds) > 0 {
		bounds, single = q.Known.Bounds, q.Known.Passed == 1
	}
	k.rank(bounds, single)
	p.Candidates = s.candidates()
	if s.varied {
		k.markClasses()
		p.Multipliers = s.multipliers()
	}
	p.Forecast = s.forecast(p, q.Forecast, bounds, single, k.masks, func(weigher, at int) Bounds { return k.ownOf(weigher)[at] })
	return p, nil
}

// follow updates the kept results from the last query's table to this one; false if they cannot be kept.
func (k *FilterCache) follow(t *Table, q *Query) (bool, error) {
	if k.scan == nil || k.ground != t.ground() || len(k.chunks) != len(t.chunks) {
		if err := k.begin(t, q); err != nil || k.never {
			return false, err
		}
	}
	s := k.scan
	s.t, s.before, s.q, s.spent = t, t, q, 0
	stale := uint64(0) // weighers whose overall bounds may shrink, as bits
	for i, c := range t.chunks {
		if q.stopped(i) {
			k.scan = nil // Half of the results are of this table.
			return false, ErrStopped
		}
		if k.chunks[i] == c {
			continue
		}
		stale |= k.renew(i, c)
		switch {
		case s.halted:
			k.scan = nil // As above.
			return false, ErrStopped
		case s.spent > ExpressionBudget:
			k.scan = nil
			return false, ErrCostly
		}
		if len(s.exceptions)+len(s.warned) > 0 || s.unweighed() {
			return false, nil
		}
	}
	for ; stale != 0; stale &= stale - 1 {
		at := bits.TrailingZeros64(stale)
		own := NoBounds()
		for _, b := range k.ownOf(at) {
			own = own.Union(b)
		}
		s.weighers[at].own = own
	}
	return true, nil
}

// begin compiles the query, and drops all results.
func (k *FilterCache) begin(t *Table, q *Query) error {
	s, err := t.compile(q, t)
	if err != nil {
		return err
	}
	// A uint64 has one bit for each weigher.
	k.never = s.beyond || !Keeps(q.Request, q.Rules) || len(s.weighers) > 64
	if k.never {
		return nil
	}
	n := len(t.chunks)
	k.scan, k.ground = s, t.ground()
	k.chunks, k.masks, k.passed = make([]*chunk, n), make([]uint64, n), 0
	k.rejected = make([]uint8, n*len(s.checks))
	k.own = make([]Bounds, n*len(s.weighers))
	k.ceilings = make([]float64, n)
	for i := range k.own {
		k.own[i] = NoBounds()
	}
	k.by = nil
	return nil
}

func (k *FilterCache) ownOf(weigher int) []Bounds {
	n := len(k.chunks)
	return k.own[weigher*n : (weigher+1)*n]
}

// renew judges a chunk again. It gives the weighers whose bounds over all chunks must be computed again.
func (k *FilterCache) renew(at int, c *chunk) (stale uint64) {
	s := k.scan
	counts := k.rejected[at*len(s.checks) : (at+1)*len(s.checks)]
	for i, n := range counts {
		s.checks[i].rejected -= int(n)
	}
	clear(counts)
	s.counts = counts
	m := s.filter(at, c)
	s.counts = nil
	k.passed += bits.OnesCount64(m) - bits.OnesCount64(k.masks[at])
	if m != 0 {
		s.unweighable(c, m)
		s.classesOf(c, m)
	}
	for i := range s.weighers {
		w, kept := &s.weighers[i], &k.ownOf(i)[at]
		was := *kept
		*kept = w.spanOf(at, c, m)
		switch {
		case was.Min <= w.own.Min && kept.Min > was.Min, was.Max >= w.own.Max && kept.Max < was.Max:
			stale |= 1 << i
		default:
			w.own = w.own.Union(*kept)
		}
	}
	k.chunks[at], k.masks[at], k.ceilings[at] = c, m, math.NaN()
	return stale
}

// spanOf gives the bounds of the hosts m of a chunk.
func (w *weigher) spanOf(at int, c *chunk, m uint64) Bounds {
	if m == 0 {
		return NoBounds()
	}
	return w.in(at, c).boundsOf(m, c.valid)
}

// rank finds the best hosts under bounds. It begins with the chunks that may have the very best, so that it can skip
// most others.
func (k *FilterCache) rank(bounds []Bounds, single bool) {
	s := k.scan
	if k.by == nil || single != k.single || !slices.Equal(bounds, k.by) {
		s.active = s.active[:0]
		for i := range s.classes {
			s.classes[i].active = nil
		}
		s.rankBy(bounds, single)
		k.by, k.single = slices.Clone(bounds), single
		for i := range k.ceilings {
			k.ceilings[i] = math.NaN()
		}
	}
	s.best = topK{limit: s.q.Limit, v: s.best.v[:0]}
	if s.varied {
		for i, m := range k.masks {
			if m != 0 {
				s.rank(i, k.chunks[i], m)
			}
		}
		return
	}
	ahead := k.foremost()
	for _, i := range ahead {
		k.rankChunk(i)
	}
	for i, m := range k.masks {
		// An unknown ceiling (NaN) does not compare as less.
		if m == 0 || s.best.full() && k.ceilings[i] < s.best.v[0].weight || slices.Contains(ahead, i) {
			continue
		}
		k.rankChunk(i)
	}
}

// mostAhead bounds how many chunks are ranked first.
const mostAhead = 16

// foremost gives the chunks with the highest ceilings: as many as hosts are requested, at most mostAhead.
func (k *FilterCache) foremost() []int {
	s, wanted := k.scan, min(k.scan.q.Limit, mostAhead)
	ahead := k.ahead[:0]
	for i, m := range k.masks {
		if m == 0 {
			continue
		}
		if math.IsNaN(k.ceilings[i]) {
			k.ceilings[i] = s.ceiling(i, k.chunks[i])
		}
		at := len(ahead)
		for at > 0 && k.ceilings[i] > k.ceilings[ahead[at-1]] {
			at--
		}
		switch {
		case at == wanted:
			continue
		case len(ahead) == wanted:
			ahead = ahead[:wanted-1]
		}
		ahead = slices.Insert(ahead, at, i)
	}
	k.ahead = ahead
	return ahead
}

// rankChunk is rankClass, and also lowers the chunk's ceiling to the greatest weight of its hosts that passed.
func (k *FilterCache) rankChunk(at int) {
	s, c, m := k.scan, k.chunks[at], k.masks[at]
	same, size := 0.0, 0.0
	s.terms = s.terms[:0]
	of := s.prepare(0)
	for k, i := range s.active {
		s.columns[k] = s.weighers[i].in(at, c)
		col, slope, intercept := s.columns[k], of.active[k].slope, of.active[k].intercept
		same += intercept
		lo, hi := slope*col.lo, slope*col.hi
		size += max(math.Abs(lo), math.Abs(hi)) + math.Abs(intercept)
		if lo == hi {
			same += lo
			continue
		}
		s.terms = append(s.terms, term{slope, &col.v})
	}
	var est [chunkSize]float64
	s.sum(&est)
	most, least := math.Inf(-1), math.Inf(-1)
	if s.best.full() {
		least = s.best.v[0].weight - size*slack - tiny
	}
	left := m
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		x := est[i] + same
		if !(x <= most) {
			most = x
		}
		if x < least {
			left &^= 1 << i
		}
	}
	k.ceilings[at] = most + 2*size*slack + tiny
	s.offer(at, c, left, 0)
}

// ceiling is an upper bound of the weights that rankClass gives a chunk's hosts; NaN if there is none.
func (s *scan) ceiling(at int, c *chunk) float64 {
	most, size := 0.0, 0.0
	of := s.prepare(0)
	for k, i := range s.active {
		col, slope, intercept := s.weighers[i].in(at, c), of.active[k].slope, of.active[k].intercept
		lo, hi := slope*col.lo, slope*col.hi
		most += intercept + max(lo, hi)
		size += max(math.Abs(lo), math.Abs(hi)) + math.Abs(intercept)
	}
	return most + 2*size*slack + tiny
}

// markClasses updates which classes of multipliers have hosts that passed.
func (k *FilterCache) markClasses() {
	s := k.scan
	for i := range s.classes {
		s.classes[i].passed = false
	}
	for i, m := range k.masks {
		s.classesOf(k.chunks[i], m)
	}
}
