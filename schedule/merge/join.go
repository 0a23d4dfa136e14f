package merge

import (
	"slices"

	"cellgate/schedule"
)

// join adds up what all cells that answered reported. The picks' hosts count as group hosts, as in Nova, which
// appends them to the group's hosts (nova/scheduler/manager.py, _consume_selected_host).
func (p *Plan) join() schedule.GlobalStats {
	k := schedule.GlobalStats{Bounds: make([]schedule.Bounds, len(p.weighers))}
	for i := range k.Bounds {
		k.Bounds[i] = schedule.NoBounds()
	}
	for c := range p.cells {
		a := p.cells[c].answer
		if a == nil {
			continue
		}
		k.Passed += int64(a.passed)
		for i, b := range a.bounds {
			if b.Min <= b.Max {
				k.Bounds[i] = k.Bounds[i].Union(b)
			}
		}
	}
	if p.affinity || (p.cfg.Request.Group != nil && len(p.result.Picks) == 0) {
		k.GroupHosts, k.GroupHostsKnown = p.joinGroup(), true
	}
	return k
}

func (p *Plan) joinGroup() []string {
	hosts := slices.Clone(p.cfg.Request.Group.Hosts)
	for c := range p.cells {
		group := p.cells[c].group
		if a := p.cells[c].answer; a != nil {
			group = a.GroupHosts
		}
		for _, g := range group {
			hosts = append(hosts, g.ServiceHost)
		}
	}
	for _, pick := range p.result.Picks {
		hosts = append(hosts, pick.Candidate.ServiceHost)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// scaleUnder is the scale of one scheduler that knows k.
func (p *Plan) scaleUnder(k *schedule.GlobalStats) schedule.Scale {
	return schedule.Scale{Weighers: p.weighers, Bounds: k.Bounds, Flat: k.Passed <= 1}
}

// weighed gives cell c's candidates with their weights under s, best first. If the answer was filtered by other
// affinity hosts, only candidates on k's hosts are given. Do not change the list.
func (p *Plan) weighed(c int, s schedule.Scale, k *schedule.GlobalStats) []schedule.Candidate {
	at := &p.cells[c]
	a := at.answer
	others := p.affinity && len(k.GroupHosts) > 0 && !slices.Equal(a.affinity, k.GroupHosts)
	if at.listed == a && at.scale.Flat == s.Flat && slices.Equal(at.scale.Bounds, s.Bounds) && !others {
		return at.list
	}
	list := make([]schedule.Candidate, 0, len(a.now))
	for i := range a.now {
		if !a.isGone(i) {
			list = append(list, a.now[i])
			last := &list[len(list)-1]
			last.Weight = s.Weight(last)
		}
	}
	if others {
		list = slices.DeleteFunc(list, func(c schedule.Candidate) bool {
			_, in := slices.BinarySearch(k.GroupHosts, c.ServiceHost)
			return !in
		})
	}
	slices.SortFunc(list, compareCandidates)
	if at.listed = nil; !others {
		at.list, at.listed, at.scale = list, a, s
	}
	return list
}

func compareCandidates(a, b schedule.Candidate) int {
	switch {
	case a.Host == b.Host:
		return 0
	case a.Better(&b):
		return -1
	}
	return 1
}

// affinityHosts are the hosts by which a cell filtered, if k is Known of its query.
func affinityHosts(g *schedule.Group, k *schedule.GlobalStats, pr *schedule.Proposal) []string {
	if k != nil && k.GroupHostsKnown {
		return k.GroupHosts
	}
	hosts := slices.Clone(g.Hosts)
	for _, h := range pr.GroupHosts {
		hosts = append(hosts, h.ServiceHost)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
