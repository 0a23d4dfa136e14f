package sqlshard

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// reserveAhead is how far ahead of what was given out time is reserved: about as
// often it is written, and so long time can stand still after a start.
const reserveAhead = time.Second

// clock is store time: the server's, but never before what any process gave out
// earlier. The database has a time that none was given out beyond; a process that
// starts begins there, since the server's clock may have gone back.
type clock struct {
	mu       sync.Mutex
	last     time.Time
	reserved time.Time
}

// tick makes store time of a reading of the server's. It is later than the one
// before, by the microsecond that the servers can tell apart.
func (c *clock) tick(server time.Time) (now time.Time, reserve bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = server.Truncate(time.Microsecond).UTC()
	if next := c.last.Add(time.Microsecond); now.Before(next) {
		now = next
	}
	c.last = now
	return now, now.After(c.reserved)
}

// read is tick with the reservation, if one is due, written by the connection.
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

// covered notes a reservation that is in the database.
func (c *clock) covered(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reserved.Before(to) {
		c.reserved = to
	}
}

// start begins at what was reserved before.
func (c *clock) start(reserved int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reserved > 0 {
		c.last = time.Unix(0, reserved).UTC()
		c.reserved = c.last
	}
}
