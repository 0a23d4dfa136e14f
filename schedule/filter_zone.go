package schedule

// zoneFilter keeps the hosts in the requested zone. A host in no zone counts as in the default zone.
func (s *scan) zoneFilter() {
	zone := s.q.Request.AvailabilityZone
	if zone == "" {
		return
	}
	id, unzoned := s.t.names.zones.id(zone), zone == s.q.Rules.DefaultAvailabilityZone
	s.check(ZoneFilter, "", func(_ int, c *chunk, _ uint64) uint64 {
		m := has(c.labels.zones, id)
		if unzoned {
			m |= ^c.labels.zoned
		}
		return m
	})
}
