package schedule

// affinityFilter keeps the service hosts that an affinity group is already on; all hosts if it is on none
// (filters/affinity_filter.py).
func (s *scan) affinityFilter() {
	r := s.q.Request
	if r.Group == nil || r.Group.Policy != Affinity || r.Forced() {
		return
	}
	hosts := s.affinityHosts()
	if len(hosts) == 0 {
		return
	}
	words := s.t.onServices(hosts, false)
	s.check(AffinityFilter, "", func(at int, _ *chunk, _ uint64) uint64 { return words.in(at) })
}
