package standin

import (
	"context"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// named are instances that requests named, and where their rows say that they are.
type named struct{ at map[schedule.ID]*seen }

// seen is where an instance was.
type seen struct {
	// host is its service host; empty when it is on none.
	host string
	// asked is when its row was asked for, wanted when a request named it last.
	asked, wanted time.Time
}

// forgetAfter is how long an instance that nobody names is kept.
const forgetAfter = time.Minute

func newNamed() named { return named{at: map[schedule.ID]*seen{}} }

// lookUp finds where the instances are that queries name, as far as it is not known. It
// gives an error for each query that cannot be judged, since its instances could not be
// found. Queries of a pinned version see what that one knew.
func (s *Standin) lookUp(ctx context.Context, queries []*cellv1.Query) []error {
	failed := make([]error, len(queries))
	if s.cfg.Find == nil {
		return failed
	}
	names := make([][]schedule.ID, len(queries))
	some := false
	for i, q := range queries {
		if q.GetTableVersion() == "" {
			names[i] = namesOf(s.shapes.Request(q))
			some = some || len(names[i]) > 0
		}
	}
	if !some {
		return failed
	}
	asked := s.cfg.Now()
	missing := s.missing(names, asked)
	if len(missing) == 0 {
		return failed
	}
	rows, err := s.cfg.Find(ctx, missing)
	if err != nil {
		lost := make(map[schedule.ID]struct{}, len(missing))
		for _, id := range missing {
			lost[id] = struct{}{}
		}
		for i := range names {
			for _, id := range names[i] {
				if _, is := lost[id]; is {
					failed[i] = fault.Wrap(fault.CellUnavailable, err, "the legacy database of cell %s did not say where the instances are that the request names", s.cfg.Cell)
					break
				}
			}
		}
		return failed
	}
	at := make(map[schedule.ID]string, len(rows))
	for i := range rows {
		if id, err := schedule.ParseID(rows[i].UUID); err == nil {
			at[id] = rows[i].Host
		}
	}
	s.found(missing, at, asked)
	return failed
}

// missing gives the instances that are not known, or not any more, each once.
func (s *Standin) missing(names [][]schedule.ID, now time.Time) (out []schedule.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	once := map[schedule.ID]struct{}{}
	for _, list := range names {
		for _, id := range list {
			if at := s.named.at[id]; at != nil {
				at.wanted = now
				if now.Sub(at.asked) < s.cfg.FindFor {
					continue
				}
			}
			if _, there := once[id]; !there {
				once[id] = struct{}{}
				out = append(out, id)
			}
		}
	}
	return out
}

// found notes where instances were when they were asked for; those that at lacks are on
// no host.
func (s *Standin) found(ids []schedule.ID, at map[schedule.ID]string, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := newDirty()
	for _, id := range ids {
		old := s.named.at[id]
		if old != nil && old.asked.After(asked) {
			continue
		}
		if old == nil && at[id] != "" || old != nil && old.host != at[id] {
			d.instances[id] = struct{}{}
		}
		s.named.at[id] = &seen{host: at[id], asked: asked, wanted: asked}
	}
	s.publish(d)
}

// moved notes that other nodes may be of a service host.
func (s *Standin) moved(service string, d *dirty) {
	if len(s.named.at) == 0 {
		return
	}
	for id, at := range s.named.at {
		if at.host == service {
			d.instances[id] = struct{}{}
		}
	}
}

// forget lets go of instances that nobody names.
func (s *Standin) forget(d *dirty) {
	now := s.cfg.Now()
	for id, at := range s.named.at {
		if now.Sub(at.wanted) > forgetAfter {
			delete(s.named.at, id)
			d.instances[id] = struct{}{}
		}
	}
}

// namesOf are the instances that a request asks after; nil for none.
func namesOf(r *schedule.Request) (out []schedule.ID) {
	if r == nil {
		return nil
	}
	if r.Group != nil {
		out = append(out, r.Group.Members...)
	}
	if r.Moving != (schedule.ID{}) {
		out = append(out, r.Moving)
	}
	if r.Nova == nil {
		return out
	}
	for _, h := range r.Nova.Hints {
		if h.Name != "same_host" && h.Name != "different_host" {
			continue
		}
		for _, text := range h.Values {
			if id, err := schedule.ParseID(text); err == nil {
				out = append(out, id)
			}
		}
	}
	return out
}
