package merge

import (
	"math"

	"cellgate/schedule"
)

// rounding bounds the relative error of a weight, generously: a weight is a sum of at most a few dozen products, each
// accurate to about 2^-51.
const rounding = 1e-12

// below reports whether each host of the cell that passed but is not among the candidates certainly ranks after t,
// whose Weight is under s. False may be too cautious; then the cell is asked again under s.
//
// It is certain in three cases. The cell listed every host that passed. Or it ranked by the same weights, and t is no
// worse than its last candidate. Or t weighs more than most, the bound for unlisted hosts.
func (a *answer) below(t *schedule.Candidate, s schedule.Scale) bool {
	if a.complete() {
		return true
	}
	last := &a.Candidates[len(a.Candidates)-1]
	if a.rankedAs(s) {
		end := schedule.Candidate{Host: last.Host, Weight: s.Weight(last), Tie: last.Tie}
		return !end.Better(t)
	}
	return t.Weight > a.most(s)
}

// mayLack reports whether a host that the cell did not list may be among the n best, n > 0, of which list, weighed under
// s, has those that it listed.
func (a *answer) mayLack(list []schedule.Candidate, n int, s schedule.Scale) bool {
	if len(list) < n {
		return !a.complete()
	}
	return !a.below(&list[n-1], s)
}

// most is an upper bound of the weights under s of the hosts that passed but are not among the candidates. For such a
// host, each raw value is within the cell's own bounds, and each multiplier within those of the cell's hosts. Its
// weight under the scale that the cell ranked by is at most the last candidate's. So its weight under s is at most
// the lesser of
//
//   - the weight of the best value within each bound;
//   - the last candidate's weight under the cell's scale, plus the greatest increase from that scale to s. A weight is
//     a sum of products of one multiplier and a function linear in one raw value. So the maximum is at an end of both
//     bounds.
//
// Both are increased by the possible rounding error.
func (a *answer) most(s schedule.Scale) float64 {
	reach, size := 0.0, 0.0
	moved := a.scale.Weight(&a.Candidates[len(a.Candidates)-1])
	for i, b := range a.Bounds {
		f, g := a.factors(i)
		low, high := s.Normalized(i, b.Min), s.Normalized(i, b.Max)
		lowThen, highThen := a.scale.Normalized(i, b.Min), a.scale.Normalized(i, b.Max)
		reach += max(f*low, f*high, g*low, g*high)
		moved += max(f*(low-lowThen), f*(high-highThen), g*(low-lowThen), g*(high-highThen))
		size += max(math.Abs(f), math.Abs(g)) *
			(math.Abs(low) + math.Abs(high) + math.Abs(lowThen) + math.Abs(highThen))
	}
	return min(reach, moved) + rounding*size
}

// rankedAs reports whether the scale that the cell ranked by gives its hosts the same weights as s.
func (a *answer) rankedAs(s schedule.Scale) bool {
	for i := range s.Bounds {
		if f, g := a.factors(i); f == 0 && g == 0 {
			continue
		}
		b, c := a.scale.Bounds[i], s.Bounds[i]
		idle := a.scale.Flat || b.Min == b.Max
		idleToo := s.Flat || c.Min == c.Max
		if idle != idleToo || !idle && b != c {
			return false
		}
	}
	return true
}

// factors are the two ends of the range of weigher i's factor, over the hosts that passed in the cell.
func (a *answer) factors(i int) (f, g float64) {
	w := &a.scale.Weighers[i]
	b := schedule.Bounds{Min: w.Multiplier, Max: w.Multiplier}
	if a.Multipliers != nil {
		b = a.Multipliers[i]
	}
	return w.Sign * b.Min, w.Sign * b.Max
}
