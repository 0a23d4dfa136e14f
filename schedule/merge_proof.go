package schedule

import "math"

// rounding bounds the relative error of a weight, generously: a weight is a sum of at most a few dozen products, each
// accurate to about 2^-51.
const rounding = 1e-12

// below reports whether each host of the cell that passed but is not among the candidates certainly ranks after t,
// whose Weight is under s. False may be too cautious; then the cell is asked again under s.
//
// It is certain in three cases. The cell listed every host that passed. Or it ranked by the same weights, and t is no
// worse than its last candidate. Or t weighs more than most, the bound for unlisted hosts.
func (a *answer) below(t *Candidate, s scale) bool {
	if a.complete() {
		return true
	}
	last := &a.Candidates[len(a.Candidates)-1]
	if a.scale.same(s, a) {
		end := Candidate{Host: last.Host, Weight: s.weight(last), Tie: last.Tie}
		return !end.Better(t)
	}
	return t.Weight > a.most(s)
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
func (a *answer) most(s scale) float64 {
	reach, size := 0.0, 0.0
	moved := a.scale.weight(&a.Candidates[len(a.Candidates)-1])
	for i, b := range a.Bounds {
		f, g := a.factors(s, i)
		low, high := s.normalised(i, b.Min), s.normalised(i, b.Max)
		lowThen, highThen := a.scale.normalised(i, b.Min), a.scale.normalised(i, b.Max)
		reach += max(f*low, f*high, g*low, g*high)
		moved += max(f*(low-lowThen), f*(high-highThen), g*(low-lowThen), g*(high-highThen))
		size += max(math.Abs(f), math.Abs(g)) *
			(math.Abs(low) + math.Abs(high) + math.Abs(lowThen) + math.Abs(highThen))
	}
	return min(reach, moved) + rounding*size
}
