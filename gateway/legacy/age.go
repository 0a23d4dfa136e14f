package legacy

import (
	"context"
	"database/sql"
	"time"
)

// readAge finds out how new the data are that the server gives: its own clock says nothing
// of that where it is a replica.
func (r *Reader) readAge(ctx context.Context, s *session, x *Snapshot) error {
	at := x.At.UTC()
	_, err := s.each(ctx, `SELECT max(CASE WHEN last_seen_up <= ? THEN last_seen_up END), max(CASE WHEN updated_at <= ? THEN updated_at END),
		max(CASE WHEN created_at <= ? THEN created_at END) FROM services WHERE deleted = 0`, []any{at, at, at}, func(rows *sql.Rows) error {
		var seen, updated, created nullTime
		if err := rows.Scan(&seen, &updated, &created); err != nil {
			return err
		}
		x.Heartbeat = utc(seen)
		x.Written = newest(x.Heartbeat, utc(updated), utc(created))
		return nil
	})
	for i := range x.nodes {
		if t := x.nodes[i].row.stamp.changed(); !t.After(at) {
			x.Written = newest(x.Written, t)
		}
	}
	return err
}

// Silent reports whether no service at all had a heartbeat within down of At: then nobody
// writes to the database, or it is a replica that is behind. One that never had a heartbeat
// is not silent.
func (x *Snapshot) Silent(down time.Duration) bool {
	return !x.Heartbeat.IsZero() && x.At.Sub(x.Heartbeat) > down
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
