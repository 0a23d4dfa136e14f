package schedule

// catalog gives the names a table has met small numbers, one series a kind, so
// that a chunk can keep what hosts have under them in plain slices. It only
// grows along a lineage; like all of a table it is never changed in place.
type catalog struct {
	traits     series
	aggregates series // by uuid
	zones      series
	cells      series // by uuid
	classes    series
}

// series numbers names 0, 1, 2 … in the order they were met.
type series struct{ ids pmap[name, int] }

// id of a name, or -1 when no host of the lineage had it.
func (s *series) id(n string) int {
	if id, ok := s.ids.get(name(n)); ok {
		return id
	}
	return -1
}

// intern gives a name's id, a new one if need be.
func (s *series) intern(n string, owner uint64) int {
	if id, ok := s.ids.get(name(n)); ok {
		return id
	}
	id := s.ids.n
	s.ids = s.ids.set(name(n), id, owner)
	return id
}
