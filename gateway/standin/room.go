package standin

import (
	"math"
	"slices"
	"time"

	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// room is what the shard has left of a host where that is less than its row shows, by
// class in the order of inventories.
type room [3]left

// left is of one class, and counts before until.
type left struct {
	amount int64
	until  time.Time
}

// classAt is a class' place in inventories; -1 for one that no row has.
func classAt(class string) int { return slices.Index([]string{vcpu, memoryMB, diskGB}, class) }

// Refused is told that the shard has no room on a host for an amount of a class,
// whatever its row shows. Until Config.RoomFor is over no more than less is proposed.
func (s *Standin) Refused(host, class string, amount int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := newDirty()
	s.hasLeft(host, class, func(known int64) int64 { return min(known, amount-1) }, d)
	s.publish(d)
}

// Rooms is told what the shard has left on hosts; of others it says nothing.
func (s *Standin) Rooms(told []*cellv1.HostRoom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := newDirty()
	for _, h := range told {
		for _, r := range h.GetRooms() {
			s.hasLeft(h.GetHostUuid(), r.GetResourceClass(), func(int64) int64 { return r.GetAmount() }, d)
		}
	}
	s.publish(d)
}

// hasLeft notes what the shard has left of a class, by what is known of it. It needs mu.
func (s *Standin) hasLeft(host, class string, say func(known int64) int64, d *dirty) {
	id, err := schedule.ParseID(host)
	h, at := s.hosts[id], classAt(class)
	if err != nil || h == nil || at < 0 {
		return
	}
	known, r := int64(math.MaxInt64), s.rooms[id]
	if r != nil && !r[at].until.IsZero() {
		known = r[at].amount
	}
	amount := say(known)
	if known == math.MaxInt64 && amount >= h.free(s.known.beside(id))[at] {
		return // its row shows no more
	}
	if r == nil {
		r = &room{}
		s.rooms[id] = r
	}
	r[at] = left{amount, s.cfg.Now().Add(s.cfg.RoomFor)}
	if s.lapseAt.IsZero() {
		s.lapseAt = r[at].until
	}
	d.hosts[id] = d.hosts[id] || false
}

// lapse goes by the rows again where what the shard said is too old. It needs mu.
func (s *Standin) lapse() {
	now := s.cfg.Now()
	if s.lapseAt.IsZero() || now.Before(s.lapseAt) {
		return
	}
	s.lapseAt = time.Time{}
	d := newDirty()
	for id, r := range s.rooms {
		counts := false
		for at := range r {
			switch until := r[at].until; {
			case until.IsZero():
			case !now.Before(until):
				r[at] = left{}
				d.hosts[id] = false
			default:
				counts = true
				if s.lapseAt.IsZero() || until.Before(s.lapseAt) {
					s.lapseAt = until
				}
			}
		}
		if !counts {
			delete(s.rooms, id)
		}
	}
	s.publish(d)
}

// took notes that a claim has of a host's room n times what it holds: 1 when it was
// made, -1 when it ended.
func (s *Standin) took(c *claim, n int64) {
	if r := s.rooms[c.host]; r != nil {
		for at, amount := range c.holds() {
			r[at].amount -= n * amount // of one that says nothing it means nothing
		}
	}
}

// limit is the greatest amount of a class that the shard has; nil for what it said of no
// class.
func (r *room) limit(at int) int64 {
	if r == nil || r[at].until.IsZero() {
		return math.MaxInt64
	}
	return r[at].amount
}

// free is the most that a claim may have by the row and the claims, by class.
func (h *host) free(on []*claim) (free [3]int64) {
	for at, i := range inventories(&h.row.View) {
		free[at] = min(i.capacity()-i.used-i.of(on), max(i.total, 1))
	}
	return free
}

// blame tells hosts without room from those whose row has room that the shard has not:
// these are ShardFilter's.
func (s *Standin) blame(p *cellv1.Proposal, r *schedule.Request) {
	if p.GetPassed() > 0 || r == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hosts := map[string]int32{}
	for id, room := range s.rooms {
		h := s.hosts[id]
		if h == nil {
			continue
		}
		free := h.free(s.known.beside(id))
		for _, a := range r.Resources {
			at := classAt(a.Class)
			if at < 0 || a.N > free[at] {
				break
			}
			if a.N > room.limit(at) {
				hosts[a.Class]++
				break
			}
		}
	}
	for class, n := range hosts {
		i := slices.IndexFunc(p.GetRejects(), func(r *cellv1.Reject) bool {
			return r.GetFilter() == schedule.ResourceFilter && r.GetDetail() == class
		})
		if i < 0 {
			continue // a filter before has them all
		}
		of := p.GetRejects()[i]
		n = min(n, of.GetHosts())
		p.Rejects = slices.Insert(p.Rejects, i, &cellv1.Reject{Filter: proposing.ShardFilter, Detail: class, Hosts: n})
		if of.Hosts -= n; of.GetHosts() == 0 {
			p.Rejects = slices.Delete(p.Rejects, i+1, i+2)
		}
	}
}
