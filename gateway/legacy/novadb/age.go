package novadb

import (
	"context"
	"database/sql"
	"slices"
	"time"
)

// readAge finds out how new the data are that the server gives: its own clock says nothing
// of that where it is a replica. Times that are ahead of it by service_down_time at most are of
// now, as in Nova.
func (r *Reader) readAge(ctx context.Context, s *session, x *Snapshot) (err error) {
	until := x.At.Add(x.down).UTC()
	if x.Heartbeat, x.Written, err = s.services(ctx, until); err == nil {
		x.Others, err = s.otherBeats(ctx)
	}
	x.Ahead = x.farAhead(until)
	for i := range x.nodes {
		if t := x.nodes[i].row.stamp.changed(); !t.After(until) {
			x.Written = newest(x.Written, t)
		}
	}
	return err
}

// farAhead is Snapshot.Ahead: times later than until do not count.
func (x *Snapshot) farAhead(until time.Time) time.Duration {
	var last time.Time
	ahead, near := 0, 0
	take := func(seen time.Time) {
		switch {
		case seen.After(until):
			last = newest(last, seen)
			ahead++
		case !seen.IsZero() && x.Heartbeat.Sub(seen) <= x.down:
			near++
		}
	}
	for i := range x.Services {
		take(x.Services[i].LastSeenUp)
	}
	for i := range x.Others {
		take(x.Others[i].Seen)
	}
	if ahead == 0 || ahead < near {
		return 0
	}
	return last.Sub(x.At)
}

// services gives the newest heartbeat of any live service, and the newest time in their rows;
// none that is later than until.
func (s *session) services(ctx context.Context, until time.Time) (heartbeat, written time.Time, err error) {
	_, err = s.each(ctx, `SELECT max(CASE WHEN last_seen_up <= ? THEN last_seen_up END), max(CASE WHEN updated_at <= ? THEN updated_at END),
		max(CASE WHEN created_at <= ? THEN created_at END) FROM services WHERE deleted = 0`, []any{until, until, until}, func(rows *sql.Rows) error {
		var seen, updated, created nullTime
		if err := rows.Scan(&seen, &updated, &created); err != nil {
			return err
		}
		heartbeat = utc(seen)
		written = newest(heartbeat, utc(updated), utc(created))
		return nil
	})
	return heartbeat, written, err
}

// mostOthers bounds the rows of services but nova-compute's that are read; conductors of before may have
// left some.
const mostOthers = 1024

// otherBeats gives the heartbeats of services but nova-compute's, the newest.
func (s *session) otherBeats(ctx context.Context) (all []Beat, err error) {
	_, err = s.each(ctx, `SELECT id, last_seen_up FROM services WHERE deleted = 0 AND "binary" <> 'nova-compute' AND last_seen_up IS NOT NULL
		ORDER BY last_seen_up DESC, id LIMIT ?`, []any{mostOthers}, func(rows *sql.Rows) error {
		var b Beat
		var seen nullTime
		err := rows.Scan(&b.ID, &seen)
		b.Seen = utc(seen)
		all = append(all, b)
		return err
	})
	return all, err
}

// InstanceAge is how new rows of instances are, by what was read in their transaction: of an
// address that leads to several servers each transaction may meet another one.
type InstanceAge struct {
	// Heartbeat is as a Snapshot's.
	Heartbeat time.Time
	// Witness is when the row that the reader was asked about was written last; zero: the
	// server does not have it.
	Witness time.Time
}

func (s *session) instanceAge(ctx context.Context, witness int64, at time.Time, down time.Duration) (age InstanceAge, err error) {
	if age.Heartbeat, _, err = s.services(ctx, at.Add(down).UTC()); err != nil || witness == 0 {
		return age, err
	}
	_, err = s.each(ctx, "SELECT created_at, updated_at, deleted_at FROM instances WHERE id = ?", []any{witness}, func(rows *sql.Rows) error {
		var created, updated, deleted nullTime
		err := rows.Scan(&created, &updated, &deleted)
		i := Instance{CreatedAt: utc(created), UpdatedAt: utc(updated), DeletedAt: utc(deleted)}
		age.Witness = i.Written(at)
		return err
	})
	return age, err
}

// Silent reports whether the rows tell nothing of now: nobody writes to the database, it is a replica that
// is behind, or clocks differ. It says nothing of which hosts are down, and nothing new of the others. One
// that never had a heartbeat is not silent.
//
//	watched       no heartbeat of any service came for down, or those that come are as old
//	(see Watch)
//	else          none is within down of At
func (x *Snapshot) Silent(down time.Duration) bool {
	switch old := x.At.Sub(x.Heartbeat) > down; {
	case x.Heartbeat.IsZero():
		return x.Ahead > 0
	case !x.pulse.sure || old && x.Ahead > 0:
		return old
	}
	return x.quiet() > down || x.pulse.lag > down
}

// quiet is for how long no heartbeat came, as far as was watched.
func (x *Snapshot) quiet() time.Duration {
	if x.pulse.moved.IsZero() {
		return 0
	}
	return x.At.Sub(x.pulse.moved)
}

// WhySilent says so in words; "" for one that is not.
func (x *Snapshot) WhySilent(down time.Duration) string {
	old := x.At.Sub(x.Heartbeat)
	switch {
	case !x.Silent(down):
		return ""
	case x.quiet() > down:
		return "no heartbeat of any service came for " + x.quiet().Round(time.Second).String() + ": it is a copy that is behind, or nobody writes to it"
	case x.Ahead > 0:
		return "the newest heartbeat of any service is " + x.Ahead.Round(time.Second).String() + " ahead of its server's clock: the clocks of Nova's services and of the server differ by more than service_down_time"
	case x.pulse.lag > down:
		return "the heartbeats of most services that have any are " + x.pulse.lag.Round(time.Second).String() + " old as they come: it is a copy that is behind, or its server's clock is ahead"
	}
	return "the newest heartbeat of any service is " + old.Round(time.Second).String() + " old: it is a copy that is behind, nobody writes to it, or its server's clock is ahead"
}

// Up reports whether a service counts as up at a later time of the server: as in Nova, but no service
// falls silent in a copy that stops, or for being read from one that is behind.
//
//	watched       as in Nova, at the newest reading in which a heartbeat of any came. Where heartbeats
//	(see Watch)   are old when they come, one that is up so much earlier is up. After a time in which
//	              nobody wrote, who was up then is up for down from when writing began again
//	not watched   as in Nova, no later than half of down after the newest heartbeat of any, until it
//	              is Silent: Nova has down be two and a half times what is between two heartbeats
func (x *Snapshot) Up(s *Service, now time.Time, down time.Duration) bool {
	p := &x.pulse
	if p.moved.IsZero() {
		if last := x.Heartbeat.Add(down / 2); !x.Heartbeat.IsZero() && !x.Silent(down) && last.Before(now) {
			now = last
		}
		return s.Up(now, down)
	}
	if p.spared[s.ID] && !s.ForcedDown && !p.moved.After(p.until) {
		return true
	}
	// What lies between two readings is no lag.
	late := p.lag - down/12
	return s.Up(p.moved, down) || late > 0 && s.Up(p.moved.Add(-late), down)
}

// Unsure says why it is not known yet whether services that do not count as up are down, in a snapshot
// that is not Silent: one clock that is ahead makes a copy that stopped look new. "" where it is known,
// and where all are up but those that are longDead: no copy that is older is not Silent. Where nobody
// wrote when it was read first, that is known down after somebody did, but of who was longDead then.
func (x *Snapshot) Unsure(now time.Time, down time.Duration) string {
	at, awaited := x.At, !x.pulse.begun.IsZero()
	if awaited {
		at = x.pulse.begun
	}
	if !x.pulse.watched || x.pulse.sure && !awaited || x.Silent(down) {
		return ""
	}
	quiet := func(s Service) bool {
		return !s.ForcedDown && s.beatLately(at, down) && !x.Up(&s, now, down)
	}
	switch {
	case !slices.ContainsFunc(x.Services, quiet):
		return ""
	case awaited:
		return "some services look down, and nobody wrote when it was read first: they have " + down.String() + " to beat again"
	}
	return "some services look down, and too few heartbeats came since it is read to know whether it is a copy that is behind"
}

// Written gives the newest time of a row that is not later than at; zero when it has none.
func (i *Instance) Written(at time.Time) time.Time {
	var w time.Time
	for _, t := range []time.Time{i.CreatedAt, i.UpdatedAt, i.DeletedAt} {
		if !t.After(at) {
			w = newest(w, t)
		}
	}
	return w
}

func newest(times ...time.Time) time.Time {
	var at time.Time
	for _, t := range times {
		if t.After(at) {
			at = t
		}
	}
	return at
}
