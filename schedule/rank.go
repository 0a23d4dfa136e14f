package schedule

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// words is a reusable buffer with one word for each chunk.
type words struct{ v []uint64 }

var wordsPool = sync.Pool{New: func() any { return new(words) }}

// rankBy sets the bounds to rank by. A weigher whose bounds are one value, or empty, normalizes to 0. If only one
// host passed, nothing is weighed (Nova, weights.py). Such weighers would add 0, so they are left out, like those
// whose multiplier is 0 for all hosts.
func (s *scan) rankBy(bounds []Bounds, single bool) {
	for i := range s.weighers {
		w, b := &s.weighers[i], bounds[i]
		if single || !(b.Max > b.Min) || w.multiplier == 0 && !s.varied {
			continue
		}
		w.min, w.span = b.Min, b.Max-b.Min
		s.active = append(s.active, i)
	}
}

// weight is Nova's sum for one slot, bit by bit.
func (s *scan) weight(i int, of *class) float64 {
	sum := 0.0
	for k := range of.active {
		w := &of.active[k]
		sum = float64(w.factor*((s.columns[k].v[i]-w.min)/w.span)) + sum
	}
	return sum
}

// slack bounds the relative error of an estimate, generously: a few units in the last place for each weigher. tiny
// covers products that underflow.
const (
	slack = 1.0 / (1 << 44)
	tiny  = 1e-290
)

// term is an active weigher's part of the estimates in the current chunk.
type term struct {
	slope float64
	v     *[chunkSize]float64
}

// fewClasses: if a chunk has more classes of multipliers, exact weights cost less than an estimate for each class.
const fewClasses = 8

// rank offers the hosts m of a chunk to the best.
func (s *scan) rank(at int, c *chunk, m uint64) {
	for k, i := range s.active {
		s.columns[k] = s.weighers[i].in(at, c)
	}
	if !s.varied {
		s.rankClass(at, c, m, 0)
		return
	}
	all := c.overrides.all()
	for i := range all {
		part := all[i].mask & m
		if part == 0 {
			continue
		}
		k := s.classOf(all[i].of)
		if len(all) > fewClasses {
			s.offer(at, c, part, k)
		} else {
			s.rankClass(at, c, part, k)
		}
	}
}

// rankClass ranks hosts of one class. Divisions by weigher and host would be most of the work. So once the heap is
// full, hosts are first estimated (slope*x + intercept). Only those that could be among the best, by the estimate and
// a bound on its error, are weighed exactly. The result equals that of weighing all.
func (s *scan) rankClass(at int, c *chunk, m uint64, k int) {
	// same is the part of the estimate that all hosts of the chunk share. top is the most that the rest can add. size
	// bounds the absolute values of all summands.
	same, top, size := 0.0, 0.0, 0.0
	s.terms = s.terms[:0]
	of := s.prepare(k)
	for k := range of.active {
		col, slope, intercept := s.columns[k], of.active[k].slope, of.active[k].intercept
		same += intercept
		lo, hi := slope*col.lo, slope*col.hi
		size += max(math.Abs(lo), math.Abs(hi)) + math.Abs(intercept)
		if lo == hi {
			same += lo
			continue
		}
		top += max(lo, hi)
		s.terms = append(s.terms, term{slope, &col.v})
	}
	if s.best.full() {
		// A NaN (no bound) compares false, so the hosts are weighed exactly.
		least := s.best.v[0].weight - size*slack - tiny
		if same+top < least {
			return
		}
		m = s.estimate(same, least, m)
	}
	s.offer(at, c, m, k)
}

// estimate keeps the hosts whose estimate is not below least.
func (s *scan) estimate(same, least float64, m uint64) uint64 {
	var est [chunkSize]float64
	s.sum(&est)
	for i := range est {
		if est[i]+same < least {
			m &^= 1 << i
		}
	}
	return m
}

// sum adds up the terms by host.
func (s *scan) sum(est *[chunkSize]float64) {
	terms := s.terms
	for ; len(terms) >= 2; terms = terms[2:] {
		a, b, v, w := terms[0].slope, terms[1].slope, terms[0].v, terms[1].v
		for i := range est {
			est[i] += a*v[i] + b*w[i]
		}
	}
	if len(terms) == 1 {
		a, v := terms[0].slope, terms[0].v
		for i := range est {
			est[i] += a * v[i]
		}
	}
}

// offer weighs the hosts of m, of one class, exactly.
func (s *scan) offer(at int, c *chunk, m uint64, k int) {
	of := s.prepare(k)
	for ; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		s.best.offer(ranked{
			weight: s.weight(i, of), class: k, tie: Tie(s.q.Seed, c.hashes.v[i]),
			row: c.rows.v[i], slot: number(at*chunkSize + i),
		})
	}
}

// candidates gives the best in order.
func (s *scan) candidates() []Candidate {
	best, judged := s.best.sorted(), s.q.Request.judging(s.q.Rules)
	list := make([]Candidate, len(best))
	raw := make([]float64, len(best)*len(s.weighers))
	for i := range best {
		b, n := &best[i], len(s.weighers)
		list[i] = Candidate{
			Host: b.row.host.UUID, ServiceHost: b.row.host.ServiceHost, NodeName: b.row.host.NodeName,
			Zone: cmp.Or(b.row.zone, s.q.Rules.DefaultAvailabilityZone), Raw: raw[i*n : (i+1)*n : (i+1)*n], Weight: b.weight, Tie: b.tie,
		}
		list[i].Allocation = b.row.allocation(s.q.Request, &s.trees, judged)
		list[i].Limits = s.limits(b.row)
		if b.class > 0 {
			list[i].Multipliers = slices.Clone(s.classes[b.class].multipliers)
		}
		chunk := int(b.slot / chunkSize)
		for k := range s.weighers {
			list[i].Raw[k] = s.weighers[k].in(chunk, s.t.chunks[chunk]).v[b.slot%chunkSize]
		}
	}
	return list
}
