package nova

import (
	"fmt"
	"slices"

	"cellgate/schedule"
)

// askCells asks every cell three times and joins the answers, as a gateway does: for the group's
// members, for the bounds of the hosts that pass, and for their order.
func askCells(cells []GoldenCell, hosts []goldenHost, q *schedule.Query) (answer, error) {
	q.Limit = max(1, len(hosts))
	known := &schedule.GlobalStats{}
	var all []*schedule.Proposal
	for round := range 3 {
		asked := *q
		if round > 0 && len(cells) > 1 {
			asked.Known = known
		}
		all = all[:0]
		for _, cell := range cells {
			p, err := cell(&asked)
			if err != nil {
				return answer{}, err
			}
			all = append(all, p)
		}
		known = joined(q, all, round > 0)
	}
	names := map[schedule.ID]string{}
	for _, h := range hosts {
		names[h.UUID] = h.key
	}
	var a answer
	passed := 0
	for _, p := range all {
		passed += p.Passed
		if a.raised == nil {
			a.raised = p.NovaException
		}
		for _, c := range p.Candidates {
			a.hosts = append(a.hosts, answered{names[c.Host], c})
		}
	}
	// A query on the wire cannot have an empty list of weighers.
	if a.raised != nil && a.raised.Stage == schedule.StageWeigh && (passed <= 1 || len(q.Rules.Weighers) == 0) {
		a.raised = nil
	}
	slices.SortFunc(a.hosts, func(x, y answered) int {
		if x.Better(&y.Candidate) {
			return -1
		}
		return 1
	})
	if len(a.hosts) != passed {
		return a, fmt.Errorf("%d candidates of %d that passed", len(a.hosts), passed)
	}
	return a, nil
}

// joined are the stats over all cells; the bounds are included only if the cells knew all members.
func joined(q *schedule.Query, all []*schedule.Proposal, bounds bool) *schedule.GlobalStats {
	k := &schedule.GlobalStats{}
	if g := q.Request.Group; g != nil {
		k.GroupHosts, k.GroupHostsKnown = slices.Clone(g.Hosts), true
		for _, p := range all {
			for _, h := range p.GroupHosts {
				k.GroupHosts = append(k.GroupHosts, h.ServiceHost)
			}
		}
		slices.Sort(k.GroupHosts)
		k.GroupHosts = slices.Compact(k.GroupHosts)
	}
	if !bounds {
		return k
	}
	for _, p := range all {
		k.Passed += int64(p.Passed)
		for i, b := range p.Bounds {
			if i == len(k.Bounds) {
				k.Bounds = append(k.Bounds, b)
				continue
			}
			k.Bounds[i] = schedule.Bounds{Min: min(k.Bounds[i].Min, b.Min), Max: max(k.Bounds[i].Max, b.Max)}
		}
	}
	return k
}
