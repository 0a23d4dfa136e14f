package standin

import (
	"slices"
	"time"

	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// claim is one that the cell may not have seen built yet. But for its last fields it is never
// changed, only replaced.
type claim struct {
	id   string
	host schedule.ID
	// What it takes of its host's root provider.
	vcpus, memoryMB, diskGB int64
	consumer                schedule.Consumer
	// guest takes of NUMA cells or devices; nil for nothing, or nothing known.
	guest *schedule.NovaRequest
	// since is when it was first known as it is.
	since time.Time
	// until is when a choice is over; zero for one that only the cell told of.
	until time.Time
	// moves: it moves its instance.
	moves bool
	// building: rows that were read since it is known had the instance on no host, or being
	// built on this one. shown: the row of its host has what it takes. See show.
	building, shown bool
}

// known are the claims that count, and those that do not any more.
type known struct {
	claims map[string]*claim
	// byHost and byConsumer have them by host, and by consumer: those too that are shown.
	byHost, byConsumer index
	// ended are claims that were said to have ended, and when: an answer of before may
	// still list them.
	ended map[string]time.Time
}

// index has claims by an id of theirs, the longest known first.
type index map[schedule.ID][]*claim

func (x index) add(id schedule.ID, c *claim) { x[id] = append(x[id], c) }

func (x index) drop(id schedule.ID, c *claim) {
	left := slices.DeleteFunc(x[id], func(other *claim) bool { return other == c })
	if len(left) == 0 {
		delete(x, id)
		return
	}
	x[id] = left
}

func newKnown() known {
	return known{claims: map[string]*claim{}, byHost: index{}, byConsumer: index{}, ended: map[string]time.Time{}}
}

// endedFor is how long it is remembered that a claim ended: no answer is older.
const endedFor = time.Minute

// Chose is told of a claim that was made, and lasts until a time by Config.Now. The
// next proposal counts it. One told again, on another host, has moved there.
func (s *Standin) Chose(in *cellv1.NewClaim, until time.Time) {
	c := claimOf(in.GetClaimId(), in.GetHostUuid(), in.GetConsumerUuid(), in.GetAllocations())
	if c == nil {
		return // The cell does not take such claims.
	}
	c.until, c.moves = until, in.GetMovesClaimId() != ""
	if g := in.GetGroup(); g != nil {
		// One that is no uuid is no group's.
		c.consumer.Group, _ = schedule.ParseID(g.GetUuid())
	}
	if g := in.GetGuest(); g != nil {
		c.consumer.Flavor = g.GetFlavorId()
		if g.GetImage() != nil {
			c.consumer.Image = &schedule.Image{Properties: wire.Properties(g.GetImage().GetProperties())}
		}
		if g.GetNuma() != nil || len(g.GetPciRequests()) > 0 {
			var f wire.Fields // The cell has refused what is wrong.
			c.guest = f.Guest(g)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.since = s.cfg.Now()
	delete(s.known.ended, c.id)
	d := newDirty()
	if old := s.known.claims[c.id]; old != nil {
		s.took(old, -1)
	}
	s.took(c, 1)
	s.put(c, d)
	s.publish(d)
}

// Counted gives the hosts, by uuid in no order, with claims that the cell has not seen built yet:
// they count beside what the rows say, unless those show them.
func (s *Standin) Counted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	hosts := make([]string, 0, len(s.known.byHost))
	for id := range s.known.byHost {
		hosts = append(hosts, id.String())
	}
	return hosts
}

// Ended is told that a claim of this gateway holds nothing any more.
func (s *Standin) Ended(claimID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.ended[claimID] = s.cfg.Now()
	d := newDirty()
	if c := s.known.claims[claimID]; c != nil {
		s.took(c, -1)
	}
	s.drop(claimID, d)
	s.publish(d)
}

// hear takes the claims that the cell awaited when it was asked; the rows at hand were
// read after it answered. The zero time: the answer may lack some.
func (s *Standin) hear(awaited []*cellv1.AwaitedClaim, asked time.Time, d *dirty) {
	now := s.cfg.Now()
	k := &s.known
	listed := make(map[string]struct{}, len(awaited))
	for _, a := range awaited {
		id := a.GetClaimId()
		if at, ended := k.ended[id]; ended && !asked.After(at) {
			continue
		}
		listed[id] = struct{}{}
		old := k.claims[id]
		c := claimOf(id, a.GetHostUuid(), a.GetConsumerUuid(), a.GetAllocations())
		if c != nil {
			c.moves = a.GetMovesClaimId() != "" || old != nil && old.moves
		}
		switch {
		case c == nil:
		case old == nil:
			c.since = now
			s.put(c, d)
		case c.host == old.host && c.holds() == old.holds():
			old.moves = c.moves
		case !asked.Before(old.since.Add(s.cfg.Lag)):
			// It was swapped by another gateway.
			c.since, c.until = now, old.until
			c.consumer, c.guest = old.consumer, old.guest
			s.put(c, d)
		}
	}
	for id, c := range k.claims {
		if _, there := listed[id]; there {
			continue
		}
		shown := !asked.Before(c.since.Add(s.cfg.Lag))
		over := !c.until.IsZero() && !now.Before(c.until)
		if shown || over {
			s.drop(id, d)
		}
	}
	for id, at := range k.ended {
		if now.Sub(at) > endedFor {
			delete(k.ended, id)
		}
	}
}

func (c *claim) holds() [3]int64 { return [3]int64{c.vcpus, c.memoryMB, c.diskGB} }

// put has a claim count as it is now.
func (s *Standin) put(c *claim, d *dirty) {
	s.drop(c.id, d)
	k := &s.known
	k.claims[c.id] = c
	k.byHost.add(c.host, c)
	k.byConsumer.add(c.consumer.Instance, c)
	d.claim(c)
}

// drop has a claim not count any more.
func (s *Standin) drop(id string, d *dirty) {
	k := &s.known
	c := k.claims[id]
	if c == nil {
		return
	}
	delete(k.claims, id)
	k.byHost.drop(c.host, c)
	k.byConsumer.drop(c.consumer.Instance, c)
	d.claim(c)
}

// claimOf reads a claim; nil for one that no cell has.
func claimOf(id, host, consumer string, takes []*cellgatev1.Allocation) *claim {
	c := &claim{id: id}
	var err error
	if c.host, err = schedule.ParseID(host); err != nil {
		return nil
	}
	if c.consumer.Instance, err = schedule.ParseID(consumer); err != nil {
		return nil
	}
	for _, a := range takes {
		if of, err := schedule.ParseID(a.GetProviderUuid()); err != nil || of != c.host {
			continue // The rows know no other provider.
		}
		switch n := int64(a.GetAmount()); a.GetResourceClass() {
		case vcpu:
			c.vcpus += n
		case memoryMB:
			c.memoryMB += n
		case diskGB:
			c.diskGB += n
		}
	}
	return c
}
