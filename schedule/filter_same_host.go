package schedule

import "slices"

// DifferentHostFilter and SameHostFilter read the hints different_host and same_host, uuids of instances: none of
// them, or at least one, is on the host (filters/affinity_filter.py). Both run once for a request.
const (
	DifferentHostFilter = "DifferentHostFilter"
	SameHostFilter      = "SameHostFilter"
)

func (s *scan) differentHostFilter() {
	if named := s.nova.hint("different_host"); len(named) > 0 && !onlyEmpty(named) {
		on := s.before.withInstances(named)
		s.beyond = true
		s.check(DifferentHostFilter, "", func(at int, _ *chunk, _ uint64) uint64 { return ^on.in(at) })
	}
}

func (s *scan) sameHostFilter() {
	if named := s.nova.hint("same_host"); len(named) > 0 && !onlyEmpty(named) {
		on := s.before.withInstances(named)
		s.beyond = true
		s.check(SameHostFilter, "", func(at int, _ *chunk, _ uint64) uint64 { return on.in(at) })
	}
}

// onlyEmpty reports whether a hint has one empty value, and so asks for nothing.
func onlyEmpty(values []string) bool { return len(values) == 1 && values[0] == "" }

// withInstances gives the hosts that have one of the instances. As in Nova, uuids compare as text, and all nodes of a
// service host have its instances.
func (t *Table) withInstances(uuids []string) slotWords {
	var all slotWords
	for _, text := range uuids {
		id, err := ParseID(text)
		if err != nil || id.String() != text {
			continue
		}
		for p := t.placesOf(id); p != nil; p = p.next {
			all = append(all, t.siblings(p.slot)...)
		}
	}
	return all.sorted()
}

// siblings gives the slots of all nodes of a slot's service host in its cell.
func (t *Table) siblings(at number) slotWords {
	h := t.row(at).host
	nodes := t.onServices([]string{h.ServiceHost}, false)
	for i := range nodes {
		if id := t.names.cells.id(h.Cell); id >= 0 {
			nodes[i].mask &= has(t.chunks[nodes[i].chunk].labels.cells, id)
		}
	}
	return slices.DeleteFunc(nodes, func(w slotWord) bool { return w.mask == 0 })
}
