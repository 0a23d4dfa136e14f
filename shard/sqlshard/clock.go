package sqlshard

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/shard"
)

// reserveAhead is how far ahead of the last time given out a reservation is. A reservation is written about once in
// that duration, and after a start time can stand still for that long.
const reserveAhead = time.Second

// wentBack is how far behind store time the server's clock is if it went back, as after a failover. A reading that is
// less far behind may have come late.
const wentBack = shard.ApplyLimit

// clock is store time: the server's time, but never before any time that some process gave out. The database has an
// upper bound of all times given out. A process that starts begins there, since the server's clock may have gone
// back. Store time then goes on at the pace of this machine, so that leases keep their length.
type clock struct {
	mu sync.Mutex
	// last was given out at the machine's time lastAt.
	last, lastAt time.Time
	reserved     time.Time
}

// tick turns a reading of the server's time into store time. It is at least a microsecond, the servers' precision,
// later than the one before. reserve: it is beyond the reservation.
func (c *clock) tick(server time.Time) (now time.Time, reserve bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = server.Truncate(time.Microsecond).UTC()
	if c.last.Sub(now) > wentBack {
		now = c.last.Add(time.Since(c.lastAt).Truncate(time.Microsecond))
	}
	if next := c.last.Add(time.Microsecond); now.Before(next) {
		now = next
	}
	c.last, c.lastAt = now, time.Now()
	return now, now.After(c.reserved)
}

// read is tick. If a reservation is due, it writes it on the connection.
func (c *clock) read(ctx context.Context, s *Store, conn *pgx.Conn, server time.Time) (time.Time, error) {
	now, reserve := c.tick(server.Add(s.opts.skew()))
	if !reserve {
		return now, nil
	}
	to := now.Add(reserveAhead)
	if _, err := conn.Exec(ctx, reserveTime, to.UnixNano()); err != nil {
		return time.Time{}, err
	}
	c.covered(to)
	return now, nil
}

// covered records a reservation that was written to the database.
func (c *clock) covered(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reserved.Before(to) {
		c.reserved = to
	}
}

// start begins at the reserved time of earlier processes.
func (c *clock) start(reserved int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reserved > 0 {
		c.last, c.lastAt = time.Unix(0, reserved).UTC(), time.Now()
		c.reserved = c.last
	}
}
