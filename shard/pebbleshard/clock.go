package pebbleshard

import "time"

// steady is a clock of the machine that does not jump with its wall clock: the wall clock at the call of steady,
// advanced by the monotonic clock.
func steady() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

// ahead is how far beyond the current time store time is reserved. After a crash it continues from the reservation,
// so that it never goes back; it may then be this far ahead of the machine.
const ahead = time.Second

// clock is store time: the machine's time, but each reading is later than the one before, also over restarts.
//
// If the machine's clock is behind store time, store time continues from its last reading at the machine's pace
// (behind), so that leases keep their length.
type clock struct {
	machine func() time.Time
	behind  time.Duration
	last    time.Time
	// reserved is on disk, or on its way there in the WAL.
	reserved time.Time
	// closing: the next write is the last; the time is not read afterwards.
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

// reservation gives the time to reserve on disk with the next write, if the last reading exceeds the reservation or
// will soon.
func (c *clock) reservation() (time.Time, bool) {
	if c.last.IsZero() {
		return time.Time{}, false // the time was not read yet
	}
	if c.closing {
		return c.last, true
	}
	if c.last.Add(ahead / 2).Before(c.reserved) {
		return time.Time{}, false
	}
	return c.last.Add(ahead), true
}
