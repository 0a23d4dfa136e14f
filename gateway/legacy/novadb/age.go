package novadb

import (
	"context"
	"database/sql"
	"time"
)

// readAge finds how new the server's data are: if it is a replica, its own clock does not tell.
// As in Nova, times that are ahead of the clock by at most service_down_time count as now.
func (r *Reader) readAge(ctx context.Context, s *session, x *Snapshot) (err error) {
	until := x.At.Add(x.down).UTC()
	var last time.Time
	if x.Heartbeat, x.Written, last, err = s.services(ctx, until); last.After(x.At) {
		x.Ahead = last.Sub(x.At)
	}
	for i := range x.nodes {
		if t := x.nodes[i].row.stamp.changed(); !t.After(until) {
			x.Written = newest(x.Written, t)
		}
	}
	return err
}

// services gives the newest heartbeat of any live service, and the newest time in the rows of services, both not
// later than until. last is the newest heartbeat without that bound.
func (s *session) services(ctx context.Context, until time.Time) (heartbeat, written, last time.Time, err error) {
	_, err = s.each(ctx, `SELECT max(CASE WHEN last_seen_up <= ? THEN last_seen_up END), max(CASE WHEN updated_at <= ? THEN updated_at END),
		max(CASE WHEN created_at <= ? THEN created_at END), max(last_seen_up) FROM services WHERE deleted = 0`, []any{until, until, until}, func(rows *sql.Rows) error {
		var seen, updated, created, newestSeen nullTime
		if err := rows.Scan(&seen, &updated, &created, &newestSeen); err != nil {
			return err
		}
		heartbeat, last = utc(seen), utc(newestSeen)
		written = newest(heartbeat, utc(updated), utc(created))
		return nil
	})
	return heartbeat, written, last, err
}

// InstanceAge is how new rows of instances are, read in the same transaction: if an address
// leads to several servers, each transaction may meet another one.
type InstanceAge struct {
	// Heartbeat is as a Snapshot's.
	Heartbeat time.Time
	// Witness is when the row of InstancePoint.Witness was last written; zero: the server
	// does not have the row.
	Witness time.Time
}

func (s *session) instanceAge(ctx context.Context, witness int64, at time.Time, down time.Duration) (age InstanceAge, err error) {
	if age.Heartbeat, _, _, err = s.services(ctx, at.Add(down).UTC()); err != nil || witness == 0 {
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

// Silent reports whether the rows do not show the present state: nobody writes to the database, it is a replica that
// is behind, or clocks differ. Then no heartbeat of any service is within down of At. The rows do not tell which
// hosts are down then. Rows without any heartbeat are not silent.
func (x *Snapshot) Silent(down time.Duration) bool {
	if x.Heartbeat.IsZero() {
		return x.Ahead > 0
	}
	return x.At.Sub(x.Heartbeat) > down
}

// WhySilent gives why a snapshot is silent; "" if it is not.
func (x *Snapshot) WhySilent(down time.Duration) string {
	switch {
	case !x.Silent(down):
		return ""
	case x.Ahead > down:
		return "the newest heartbeat of any service is " + x.Ahead.Round(time.Second).String() + " ahead of its server's clock: the clocks of Nova's services and of the server differ by more than service_down_time"
	}
	return "the newest heartbeat of any service is " + x.At.Sub(x.Heartbeat).Round(time.Second).String() + " old: it is a copy that is behind, nobody writes to it, or its server's clock is ahead"
}

// Up reports whether a service counts as up at a later time of the server, as in Nova with one exception. Unless the
// rows are Silent, that time is taken as at most half of down after the newest heartbeat of any service. Nova demands
// that down is at least two and a half heartbeat intervals. So no service counts as down only because its rows come
// from a copy that stopped or is behind.
func (x *Snapshot) Up(s *Service, now time.Time, down time.Duration) bool {
	if last := x.Heartbeat.Add(down / 2); !x.Heartbeat.IsZero() && !x.Silent(down) && last.Before(now) {
		now = last
	}
	return s.Up(now, down)
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
