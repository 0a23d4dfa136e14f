package schedule

// softAffinity weighs a host by sign times the number of the group's members on it, if the group has the policy; else
// all weigh 0 (weights/affinity.py).
func (s *scan) softAffinity(policy Policy, sign float64) func(int, *chunk) *column {
	zero := flat(0)
	if g := s.q.Request.Group; g == nil || g.Policy != policy || len(s.members) == 0 {
		return func(int, *chunk) *column { return zero }
	}
	counts := flat(0)
	return func(at int, c *chunk) *column {
		members := s.membersIn(at)
		if len(members) == 0 {
			return zero
		}
		clear(counts.v[:])
		for _, k := range members {
			counts.v[k.slot%chunkSize] = sign * float64(k.n)
		}
		counts.span(c.valid)
		return counts
	}
}
