package standin

import "cellgate/schedule"

// absentWhy is why a host is not proposed that the shard lacks, while none can be imported.
const absentWhy = "not in the shard, and cannot be imported now"

// OnlyThere is told the hosts that the shard has, while no others can be imported: others
// are not proposed until AllThere.
func (s *Standin) OnlyThere(uuids []string) {
	there := make(map[schedule.ID]struct{}, len(uuids))
	for _, text := range uuids {
		// The shard has checked it.
		if id, err := schedule.ParseID(text); err == nil {
			there[id] = struct{}{}
		}
	}
	s.setThere(there)
}

// AllThere is told that hosts can be imported.
func (s *Standin) AllThere() { s.setThere(nil) }

// Absent counts the hosts that are not proposed since the shard lacks them.
func (s *Standin) Absent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.absent
}

func (s *Standin) setThere(there map[schedule.ID]struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there = there
	d := newDirty()
	for id, h := range s.hosts {
		s.find(id, h, d)
	}
	s.publish(d)
}

// find notes whether the shard has a host, as far as that counts. It needs mu.
func (s *Standin) find(id schedule.ID, h *host, d *dirty) {
	absent := false
	if s.there != nil {
		_, has := s.there[id]
		absent = !has
	}
	if h.absent == absent {
		return
	}
	if h.absent = absent; absent {
		s.absent++
	} else {
		s.absent--
	}
	d.hosts[id] = true
}
