package standin

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Withheld is told all hosts that operators keep new instances from in the cell, whatever
// their rows say. It holds until it is told others.
func (s *Standin) Withheld(told []*cellv1.WithheldHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.withheld
	s.withheld = make(map[schedule.ID]*cellv1.WithheldHost, len(told))
	d := newDirty()
	for _, w := range told {
		// The shard has checked it.
		if id, err := schedule.ParseID(w.GetHostUuid()); err == nil {
			s.withheld[id] = w
			s.withhold(id, w, d)
		}
	}
	for id := range before {
		if s.withheld[id] == nil {
			s.withhold(id, nil, d)
		}
	}
	s.publish(d)
}

// withhold notes an operator's word of a host, nil for none. It needs mu.
func (s *Standin) withhold(id schedule.ID, w *cellv1.WithheldHost, d *dirty) {
	h := s.hosts[id]
	if h == nil || h.withheld.GetWhy() == w.GetWhy() && h.withheld.GetDown() == w.GetDown() {
		return
	}
	h.withheld = w
	d.hosts[id] = true
}
