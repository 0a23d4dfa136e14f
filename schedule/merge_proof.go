package schedule

import "math"

// rounding is a generous relative bound on the error of a weight: a weight is a
// sum of at most a few dozen products, each good to some 2^-51.
const rounding = 1e-12

// below reports whether each host of the cell that passed but is not among the
// candidates certainly comes after t, whose Weight is under s. It may say no
// although they do; then the cell has to be asked again under s.
//
// The cell proves it when it named every host that passed, when it ranked by the
// same weights and t is no worse than the last it named, or when t weighs more
// than most says an unseen host can.
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

// most is an upper bound of the weight under s of the hosts that passed but are
// not among the candidates. Of such a host it is known that each raw value is
// within the cell's own bounds, each multiplier within those of the cell's hosts,
// and that its weight under the scale the cell ranked by is at most that of the
// last candidate. So it is at most the least of
//
//   - what the best value of each bound weighs under s;
//   - the last candidate's weight under the cell's scale, and what going over to
//     s adds at most. A weight is a sum of products of one multiplier and a
//     function linear in one raw value, so the most is found at an end of each
//     bound of both.
//
// Both are widened by what rounding may have taken from them.
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
