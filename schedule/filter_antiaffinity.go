package schedule

// antiAffinityFilter keeps the hosts with fewer members of the group than its limit, and those that the moving
// instance is already on: a resize may stay (filters/affinity_filter.py).
func (s *scan) antiAffinityFilter() {
	g := s.q.Request.Group
	if g == nil || g.Policy != AntiAffinity || s.q.Request.Forced() {
		return
	}
	limit := max(1, g.MaxPerHost)
	var own map[number]bool
	for p := s.t.placesOf(s.q.Request.Moving); p != nil; p = p.next {
		if own == nil {
			own = map[number]bool{}
		}
		own[p.slot] = true
	}
	s.check(AntiAffinityFilter, "", func(at int, _ *chunk, m uint64) uint64 {
		for _, k := range s.membersIn(at) {
			if k.n >= limit && !own[k.slot] {
				m &^= 1 << (k.slot % chunkSize)
			}
		}
		return m
	})
}
