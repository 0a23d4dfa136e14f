package pebbleshard

import "time"

// steady is a machine's clock that a step of its wall clock does not move: the
// wall clock of now, and the monotonic one from there.
func steady() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// ahead is how far beyond the current time store time is reserved: after a
// crash it goes on from the reservation, so that it never goes back; it may be
// this much ahead of the machine then.
const ahead = time.Second

// clock is store time: the machine's, except that every reading is after the
// one before, restarts included.
//
// Where the machine's clock is behind, store time goes on from where it was at
// the machine's pace (behind), so that leases last as long as they say.
type clock struct {
	machine func() time.Time
	behind  time.Duration
	last    time.Time
	// reserved is on disk, or on its way there in the WAL.
	reserved time.Time
	// closing: the last write; nothing is read after it.
	closing bool
}

func (c *clock) tick() time.Time {
	now := c.machine().Round(0).UTC().Add(c.behind)
	if !now.After(c.last) {
		c.behind += c.last.Sub(now) + 1
		now = c.last.Add(1)
	}
	c.last = now
	return now
}

// reservation gives the time to reserve on disk with the next write, if the last
// reading needs one or will soon.
func (c *clock) reservation() (time.Time, bool) {
	if c.last.IsZero() {
		return time.Time{}, false // nobody has read the time yet
	}
	if c.closing {
		return c.last, true
	}
	if c.last.Add(ahead / 2).Before(c.reserved) {
		return time.Time{}, false
	}
	return c.last.Add(ahead), true
}
