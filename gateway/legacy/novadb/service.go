package novadb

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"cellgate/schedule/nova"
)

// Service is a live nova-compute row of services. Times are by the clocks of their writers,
// in UTC; zero is NULL.
type Service struct {
	ID   int64
	UUID string
	Host string
	// Version is 0 when the row has none, as in Nova.
	Version        int64
	Disabled       bool
	DisabledReason string
	ForcedDown     bool
	LastSeenUp     time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Up reports whether the service counts as up at a time of the server, as in Nova: its
// heartbeat, else its creation, is within down of that time.
func (s *Service) Up(now time.Time, down time.Duration) bool {
	n := nova.Service{ForcedDown: s.ForcedDown}
	if !s.LastSeenUp.IsZero() {
		n.LastSeenUp = &s.LastSeenUp
	}
	if !s.CreatedAt.IsZero() {
		n.CreatedAt = &s.CreatedAt
	}
	return n.Up(now, down)
}

// Name gives the host, or a text with the row's id if it has no host.
func (s *Service) Name() string {
	if s.Host != "" {
		return s.Host
	}
	return fmt.Sprintf("(no host: row %d of services)", s.ID)
}

// readServices reads every live nova-compute row, by id.
func (r *Reader) readServices(ctx context.Context, s *session, x *Snapshot) error {
	name, err := s.column(ctx, "services", "uuid", "NULL") // not before Pike
	if err != nil {
		return err
	}
	_, err = s.pages(ctx, list{
		table: "services", page: stampPage, max: r.conf.MaxRows,
		text: `SELECT id, ` + name + `, host, version, disabled, disabled_reason, forced_down, last_seen_up, created_at, updated_at
			FROM services WHERE deleted = 0 AND "binary" = 'nova-compute' AND id > ? ORDER BY id LIMIT ?`,
	}, func(rows *sql.Rows) (int64, error) {
		var v Service
		var uuid, host, why sql.NullString
		var version sql.NullInt64
		var disabled, forced truth
		var seen, created, updated nullTime
		if err := rows.Scan(&v.ID, &uuid, &host, &version, &disabled, &why, &forced, &seen, &created, &updated); err != nil {
			return 0, err
		}
		v.UUID, v.Host, v.Version, v.DisabledReason = uuid.String, host.String, version.Int64, why.String
		v.Disabled, v.ForcedDown, v.LastSeenUp, v.CreatedAt, v.UpdatedAt = bool(disabled), bool(forced), utc(seen), utc(created), utc(updated)
		x.Services = append(x.Services, v)
		return v.ID, nil
	})
	return err
}

// truth is a boolean column as Nova reads it. In MySQL it is a number, and every number
// except 0 is true. NULL is false.
type truth bool

// Scan implements sql.Scanner.
func (t *truth) Scan(v any) error {
	var n sql.NullInt64
	if b, ok := v.(bool); ok {
		*t = truth(b)
		return nil
	}
	if err := n.Scan(v); err != nil {
		return err
	}
	*t = n.Int64 != 0
	return nil
}

// nullTime is a time that may be NULL. PostgreSQL's infinite times count as NULL too.
type nullTime struct{ sql.NullTime }

// Scan implements sql.Scanner.
func (t *nullTime) Scan(v any) error {
	if text, ok := v.(string); ok && strings.HasSuffix(text, "infinity") {
		v = nil
	}
	return t.NullTime.Scan(v)
}

func utc(t nullTime) time.Time {
	if !t.Valid {
		return time.Time{}
	}
	return t.Time.UTC()
}
