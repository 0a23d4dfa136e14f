package pebbleshard

import "time"

// ahead is how far beyond the current time store time is reserved: after a
// crash it goes on from the reservation, so that it never goes back, and stands
// nearly still for at most this long.
const ahead = time.Second

// clock is store time: the machine's, except that every reading is after the
// one before, restarts included.
type clock struct {
	machine func() time.Time
	last    time.Time
	// reserved is on disk, or on its way there in the WAL.
	reserved time.Time
	// closing: the last write; nothing is read after it.
	closing bool
}

func (c *clock) tick() time.Time {
	now := c.machine().Round(0).UTC()
	if !now.After(c.last) {
		now = c.last.Add(1)
	}
	c.last = now
	return now
}

// reservation gives the time to reserve on disk with the next write, if the last
// reading needs one or will soon.
func (c *clock) reservation() (time.Time, bool) {
	if c.closing {
		return c.last, true
	}
	if c.last.Add(ahead / 2).Before(c.reserved) {
		return time.Time{}, false
	}
	return c.last.Add(ahead), true
}
