package standin

import (
	"maps"
	"slices"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// show finds out which claims the rows at hand show, and which not any more. Each snapshot says
// it anew: its row of a host has an instance when its row of the instance says so (Snapshot.Stage),
// whatever the ones before had, which may have been of another server.
//
// An instance that is active says so only where it was seen on its way there. It is no other that
// came by a move: what is known of moves is left out, and the cell knows the claim of one that
// runs elsewhere.
func (s *Standin) show(d *dirty) {
	for _, c := range s.known.claims {
		if shown := s.shows(c); shown != c.shown {
			c.shown = shown
			d.claim(c)
		}
	}
}

func (s *Standin) shows(c *claim) bool {
	h := s.hosts[c.host]
	if h == nil || c.moves {
		return false
	}
	stage := s.rows.Stage(c.consumer.Instance, h.row)
	c.building = c.building || stage == legacy.Nowhere || stage == legacy.Claimed
	return stage == legacy.Claimed || stage == legacy.Running && c.building
}

// mostAwaited bounds Awaits.
const mostAwaited = 2000

// Awaits gives the instances of claims that newer rows may show: of those that are known, and
// of those that the cell listed, the newest that do not move any. A snapshot that is asked for them
// tells Update which it shows.
func (s *Standin) Awaits(listed []*cellv1.AwaitedClaim) []schedule.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []schedule.ID
	for _, a := range listed {
		id, err := schedule.ParseID(a.GetConsumerUuid())
		if err == nil && a.GetMovesClaimId() == "" && s.known.claims[a.GetClaimId()] == nil {
			all = append(all, id)
		}
	}
	known := slices.SortedFunc(maps.Values(s.known.claims), func(a, b *claim) int { return b.since.Compare(a.since) })
	for _, c := range known {
		if !c.moves {
			all = append(all, c.consumer.Instance)
		}
	}
	return all[:min(len(all), mostAwaited)]
}

// beside are the claims on a host that its row does not show.
func (k *known) beside(host schedule.ID) []*claim {
	all := k.byHost[host]
	if !slices.ContainsFunc(all, func(c *claim) bool { return c.shown }) {
		return all
	}
	var out []*claim
	for _, c := range all {
		if !c.shown {
			out = append(out, c)
		}
	}
	return out
}
