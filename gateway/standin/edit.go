package standin

import (
	"maps"
	"slices"
	"time"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// dirty is what the next table has otherwise.
type dirty struct {
	// hosts: true when more than amounts changed.
	hosts map[schedule.ID]bool
	// instances that may be on other hosts now.
	instances map[schedule.ID]struct{}
}

func newDirty() *dirty {
	return &dirty{hosts: map[schedule.ID]bool{}, instances: map[schedule.ID]struct{}{}}
}

// claim notes one that counts now, or does not any more.
func (d *dirty) claim(c *claim) {
	d.hosts[c.host] = d.hosts[c.host] || c.guest != nil
	d.instances[c.consumer.Instance] = struct{}{}
}

// Update takes newer rows, as they are at the database server's time now, and the claims
// that the cell awaited when it was asked, which was before the rows were read. The zero
// time for asked: the answer may lack some of them, so none counts as shown that it does
// not list. Only hosts that are others are made again.
func (s *Standin) Update(x *legacy.Snapshot, now time.Time, awaited []*cellv1.AwaitedClaim, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := newDirty()
	s.read(x, now, d)
	s.hear(awaited, asked, d)
	s.show(d)
	s.forget(d)
	s.publish(d)
}

// read takes rows in.
func (s *Standin) read(x *legacy.Snapshot, now time.Time, d *dirty) {
	before := s.rows
	s.rows, s.readAt = x, s.cfg.Now().Add(-now.Sub(x.At))
	s.updates++
	same := x.Follows(before)
	s.aggregates.read(x)
	for i := range x.Hosts {
		row := &x.Hosts[i]
		down := row.DownAt(x, now)
		h := s.hosts[row.UUID]
		if h == nil {
			h = &host{row: row, withheld: s.withheld[row.UUID]}
			s.hosts[row.UUID] = h
			s.move(row.UUID, "", row.ServiceHost)
			d.hosts[row.UUID] = true
			s.find(row.UUID, h, d)
			for _, c := range s.known.byHost[row.UUID] {
				d.instances[c.consumer.Instance] = struct{}{}
			}
			s.moved(row.ServiceHost, d)
		} else if old := h.row; !same || old.Revision != row.Revision || h.down != down || old.Disabled != row.Disabled ||
			old.ServiceHost != row.ServiceHost || old.Cell != row.Cell || s.aggregates.differ(old.Aggregates, row.Aggregates) {
			d.hosts[row.UUID] = true
			if old.ServiceHost != row.ServiceHost {
				s.move(row.UUID, old.ServiceHost, row.ServiceHost)
				s.moved(old.ServiceHost, d)
				s.moved(row.ServiceHost, d)
			}
		}
		h.row, h.down, h.update = row, down, s.updates
	}
	if len(s.hosts) == len(x.Hosts) {
		return
	}
	for id, h := range s.hosts {
		if h.update != s.updates {
			delete(s.hosts, id)
			delete(s.rooms, id)
			if h.absent {
				s.absent--
			}
			s.move(id, h.row.ServiceHost, "")
			d.hosts[id] = true
		}
	}
}

// move notes under which service host a host is; empty for none.
func (s *Standin) move(id schedule.ID, from, to string) {
	if from != "" {
		left := slices.DeleteFunc(s.nodes[from], func(other schedule.ID) bool { return other == id })
		if s.nodes[from] = left; len(left) == 0 {
			delete(s.nodes, from)
		}
	}
	if to != "" {
		s.nodes[to] = append(s.nodes[to], id)
	}
}

// publish makes the next table.
func (s *Standin) publish(d *dirty) {
	if s.rows == nil || len(d.hosts) == 0 && len(d.instances) == 0 {
		return
	}
	e := s.versions.Current().Edit()
	for id, whole := range d.hosts {
		on := s.known.beside(id)
		h := s.hosts[id]
		switch taken := guests(on); {
		case h == nil:
			e.RemoveHost(id)
		case whole || len(taken) > 0:
			row := h.whole(on, s.rooms[id])
			if row.Cell == "" { // there is no API database
				row.Cell = s.cfg.CellUUID
			}
			e.PutHost(row)
			e.SetGuests(id, taken)
		default:
			e.SetUsage(id, h.used(on, s.rooms[id]), h.view(on))
		}
	}
	for instance := range d.instances {
		s.seat(e, instance)
	}
	s.versions.Publish(e.Table())
}

// seat puts an instance where its claims and its row are.
func (s *Standin) seat(e *schedule.Edit, instance schedule.ID) {
	e.RemoveConsumer(instance)
	seats := map[schedule.ID]schedule.Consumer{}
	var order []schedule.ID
	add := func(id schedule.ID, c schedule.Consumer) {
		if _, there := seats[id]; !there && s.hosts[id] != nil {
			seats[id] = c
			order = append(order, id)
		}
	}
	for _, c := range s.known.byConsumer[instance] {
		add(c.host, c.consumer)
	}
	if at := s.named.at[instance]; at != nil {
		// Nova lists an instance on every node of its service host.
		for _, id := range s.nodes[at.host] {
			add(id, schedule.Consumer{Instance: instance})
		}
	}
	for _, id := range order {
		e.AddConsumer(id, seats[id])
	}
}

// aggregates are those of the newest rows, by uuid.
type aggregates struct {
	now map[string]schedule.Aggregate
	// changed are those that are others than in the rows before.
	changed map[string]struct{}
}

// read takes those of rows. All hosts of an aggregate have the same.
func (a *aggregates) read(x *legacy.Snapshot) {
	before := a.now
	a.now, a.changed = make(map[string]schedule.Aggregate, len(before)), map[string]struct{}{}
	for i := range x.Hosts {
		for _, of := range x.Hosts[i].Aggregates {
			if _, there := a.now[of.UUID]; there {
				continue
			}
			a.now[of.UUID] = of
			if was, there := before[of.UUID]; !there || was.Name != of.Name || !maps.Equal(was.Metadata, of.Metadata) {
				a.changed[of.UUID] = struct{}{}
			}
		}
	}
}

// differ reports whether a host is in other aggregates than before, or those are
// others.
func (a *aggregates) differ(before, now []schedule.Aggregate) bool {
	if len(before) != len(now) {
		return true
	}
	for i := range now {
		if before[i].UUID != now[i].UUID {
			return true
		}
		if _, changed := a.changed[now[i].UUID]; changed {
			return true
		}
	}
	return false
}
