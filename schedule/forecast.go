package schedule

import (
	"reflect"
	"slices"
)

// Forecast says how the next picks of a proposal's candidates change the proposal, so that a merge.Plan goes on
// without asking again. It is exact, because a pick changes only its own host. A table gives none if that is not so
// (groups), and ends it before a pick that it cannot compute, such as of a host whose child providers count.
type Forecast struct {
	// Rest are the bounds over the hosts that passed, except those in Steps.
	Rest []Bounds
	// Steps are the likely picks, in order. A merge.Plan may make them in another order, and only some of them.
	Steps []Step
}

// Step is the state of a candidate after one more pick of it. A candidate's n-th step is its state after n picks.
type Step struct {
	// At is the candidate's index in the proposal.
	At int
	// Passes: the candidate still passes every filter, and its raw weights are Raw.
	Passes bool
	Raw    []float64
}

// forecast computes up to n picks of a proposal's candidates, which were ranked under bounds. masks are the hosts of
// each chunk that passed; own gives a weigher's bounds of a whole chunk. Nil: no pick can be computed.
func (s *scan) forecast(p *Proposal, n int, bounds []Bounds, single bool, masks []uint64, own func(weigher, chunk int) Bounds) *Forecast {
	if n < 1 || s.q.Request.Group != nil || s.q.Request.Tree.groups() || s.beyond || s.options.StrictNova || len(s.asked) > 0 || len(s.exceptions)+len(s.warned) > 0 {
		return nil
	}
	by := Scale{Weighers: s.q.Rules.SignedWeighers(), Bounds: bounds, Flat: single}
	judged := s.q.Request.judging(s.q.Rules)
	f, now, after := &Forecast{}, slices.Clone(p.Candidates), s.t.Edit()
	left := make([]int, len(now)) // candidates that pass, by index
	for i := range left {
		left[i] = i
	}
	for len(f.Steps) < n && len(left) > 0 {
		at := left[0]
		for _, i := range left {
			if now[i].Better(&now[at]) {
				at = i
			}
		}
		slot, _ := s.t.slots.get(now[at].Host)
		after.consume(slot, s.q.Request, judged)
		after.t.chunks[slot/chunkSize].seal(false)
		step, ok := s.stepOf(&p.Candidates[at], slot, after.t)
		if !ok {
			break
		}
		step.At = at
		f.Steps = append(f.Steps, step)
		if !step.Passes {
			left = slices.DeleteFunc(left, func(i int) bool { return i == at })
			continue
		}
		now[at].Raw = step.Raw
		now[at].Weight = by.Weight(&now[at])
	}
	s.exceptions, s.warned = s.exceptions[:0], s.warned[:0]
	if len(f.Steps) == 0 {
		return nil
	}
	f.Rest = s.rest(p, f.Steps, masks, own)
	return f
}

// stepOf judges and weighs one host on a table that differs from the scan's only in picks; false if that needs more
// than the host's chunk.
func (s *scan) stepOf(before *Candidate, slot number, t *Table) (Step, bool) {
	at, bit := int(slot/chunkSize), uint64(1)<<(slot%chunkSize)
	c := t.chunks[at]
	r := c.rows.v[slot%chunkSize]
	if t.ground() != s.t.ground() || before.Allocation != nil || r.allocation(s.q.Request, &s.trees, judging{}) != nil || !reflect.DeepEqual(before.Limits, s.limits(r)) {
		return Step{}, false
	}
	m := bit
	s.spread = 0
	for i := range s.checks {
		if m &= s.checks[i].pass(at, c, m); m == 0 {
			break
		}
	}
	if s.unreadable != 0 || len(s.exceptions)+len(s.warned) > 0 {
		s.unreadable = 0
		return Step{}, false
	}
	if m == 0 {
		return Step{}, true
	}
	step := Step{Passes: true, Raw: make([]float64, len(s.weighers))}
	for i := range s.weighers {
		step.Raw[i] = s.weighers[i].in(at, c).v[slot%chunkSize]
	}
	return step, true
}

// rest gives the bounds over the hosts that passed, except those in steps.
func (s *scan) rest(p *Proposal, steps []Step, masks []uint64, own func(weigher, chunk int) Bounds) []Bounds {
	without := make(slotWords, 0, len(steps))
	for i, step := range steps {
		if !slices.ContainsFunc(steps[:i], func(b Step) bool { return b.At == step.At }) {
			slot, _ := s.t.slots.get(p.Candidates[step.At].Host)
			without = append(without, slotWord{slot / chunkSize, 1 << (slot % chunkSize)})
		}
	}
	list := make([]Bounds, len(s.weighers))
	for i := range list {
		w, b := &s.weighers[i], NoBounds()
		for at, m := range masks {
			if m == 0 {
				continue
			}
			var of Bounds
			gone := uint64(0)
			for _, x := range without {
				if int(x.chunk) == at {
					gone |= x.mask
				}
			}
			if gone == 0 {
				of = own(i, at)
			} else {
				of = w.spanOf(at, s.t.chunks[at], m&^gone)
			}
			b = b.Union(of)
		}
		if w.zeroMin && b.Max >= b.Min {
			b.Min = 0
		}
		list[i] = b
	}
	return list
}
