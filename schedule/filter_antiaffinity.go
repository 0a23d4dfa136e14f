package schedule

// antiAffinityFilter keeps the hosts with fewer members of the group than its
// limit (filters/affinity_filter.py). Nova lets a host pass that holds the very
// instance (a resize to the same host); a query does not say which instance it
// is for, so that exemption would be taken from the counts here.
func (s *scan) antiAffinityFilter() {
	g := s.q.Request.Group
	if g == nil || g.Policy != AntiAffinity || s.q.Request.Forced() {
		return
	}
	limit := max(1, g.MaxPerHost)
	s.check(AntiAffinityFilter, "", func(at int, _ *chunk, m uint64) uint64 {
		for _, k := range s.membersIn(at) {
			if k.n >= limit {
				m &^= 1 << (k.slot % chunkSize)
			}
		}
		return m
	})
}
