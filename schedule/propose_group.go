package schedule

import (
	"cmp"
	"slices"
	"sort"
	"strings"
)

// memberCount is how many members of the request's group a slot's host has.
type memberCount struct {
	slot number
	n    int
}

// countMembers counts the members of the request's group on hosts, by slot: consumers with a claim in the group,
// instances in Members, and tentative placements (with MembersExact only those in Members). Under affinity the moving
// instance does not count.
func (t *Table) countMembers(q *Query) []memberCount {
	g := q.Request.Group
	if g == nil {
		return nil
	}
	counts := map[number]int{}
	if g.UUID != (ID{}) {
		if held, ok := t.groups.get(g.UUID); ok {
			for slot, n := range held.all() {
				counts[slot] += n
			}
		}
	}
	named := make(map[ID]bool, len(g.Members)+len(q.TentativePlacements))
	if moving := q.Request.Moving; moving != (ID{}) && g.Policy == Affinity {
		named[moving] = true
		for p := t.placesOf(moving); p != nil; p = p.next {
			if g.UUID == (ID{}) || p.group != g.UUID {
				continue
			}
			if counts[p.slot]--; counts[p.slot] == 0 {
				delete(counts, p.slot)
			}
		}
	}
	name := func(instance ID) {
		if named[instance] {
			return
		}
		named[instance] = true
		for p := t.placesOf(instance); p != nil; p = p.next {
			if g.UUID == (ID{}) || p.group != g.UUID {
				counts[p.slot]++
			}
		}
	}
	for _, m := range g.Members {
		name(m)
	}
	if !g.MembersExact {
		for _, take := range q.TentativePlacements {
			name(take.Instance)
		}
	}
	list := make([]memberCount, 0, len(counts))
	for slot, n := range counts {
		list = append(list, memberCount{slot, n})
	}
	slices.SortFunc(list, func(a, b memberCount) int { return cmp.Compare(a.slot, b.slot) })
	return list
}

// placesOf gives the list of an instance's places; nil for none.
func (t *Table) placesOf(instance ID) *place {
	p, ok := t.consumers.get(instance)
	if !ok {
		return nil
	}
	return &p
}

// membersIn gives the part of the counts for a chunk.
func (s *scan) membersIn(chunk int) []memberCount {
	if len(s.members) == 0 {
		return nil
	}
	from := number(chunk) * chunkSize
	lo := sort.Search(len(s.members), func(i int) bool { return s.members[i].slot >= from })
	hi := lo
	for hi < len(s.members) && s.members[hi].slot < from+chunkSize {
		hi++
	}
	return s.members[lo:hi]
}

// affinityHosts are the service hosts that an affinity group is bound to; empty if it is not bound yet. The host of a
// tentative placement always counts, whatever its instance, as in Nova's _consume_selected_host (manager.py).
func (s *scan) affinityHosts() []string {
	var hosts []string
	if k := s.q.Known; k != nil && k.GroupHostsKnown {
		hosts = slices.Clone(k.GroupHosts)
	} else {
		hosts = slices.Clone(s.q.Request.Group.Hosts)
		for _, m := range s.members {
			hosts = append(hosts, s.t.row(m.slot).host.ServiceHost)
		}
	}
	for _, take := range s.q.TentativePlacements {
		if at, ok := s.t.slots.get(take.Host); ok {
			hosts = append(hosts, s.t.row(at).host.ServiceHost)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// onServices gives the slots of service hosts, by exact name or, with fold, without case.
func (t *Table) onServices(hosts []string, fold bool) slotWords {
	var all slotWords
	for _, h := range hosts {
		set, ok := t.services.get(name(strings.ToLower(h)))
		if !ok {
			continue
		}
		from := len(all)
		all = append(all, set...)
		if fold {
			continue
		}
		for i := range all[from:] {
			w := &all[from+i]
			w.mask = t.chunks[w.chunk].named(w.mask, h)
		}
	}
	return all.sorted()
}

// named keeps the slots with exactly this service host.
func (c *chunk) named(m uint64, service string) uint64 {
	for i, r := range c.rows.v {
		if m>>i&1 != 0 && r.host.ServiceHost != service {
			m &^= 1 << i
		}
	}
	return m
}

// ofHosts gives the slots of hosts, in no order.
func (t *Table) ofHosts(ids []ID) (all slotWords) {
	for _, id := range ids {
		if at, ok := t.slots.get(id); ok {
			all = append(all, slotWord{at / chunkSize, 1 << (at % chunkSize)})
		}
	}
	return all
}

// onNodes gives the slots of nodes.
func (t *Table) onNodes(nodes []string) slotWords {
	var all slotWords
	for _, n := range nodes {
		if set, ok := t.nodes.get(name(n)); ok {
			all = append(all, set...)
		}
	}
	return all.sorted()
}
