package novadb

import (
	"maps"
	"slices"
	"time"
)

// Beat is the newest heartbeat of a service, by the clock of whoever wrote it, in UTC.
type Beat struct {
	// ID is that of its row of services.
	ID   int64
	Seen time.Time
}

// Watch sees by the successive readings of one database whether heartbeats go on in it, by the clock
// of whoever reads: one time tells that of nothing, where the clocks of Nova's services differ. It
// belongs to one goroutine. The zero value is ready.
type Watch struct {
	rows map[int64]beating
	// reading counts the readings.
	reading uint64
	// since is the first reading, moved the newest in which a heartbeat was another than in the one
	// before; zero for none.
	since, moved time.Time
	// begun is the newest heartbeat in the first reading. Where nobody wrote then, back is the first
	// reading with other heartbeats; zero for none. silent: nobody did, by the first reading.
	begun, back time.Time
	silent      bool
	// ofComputes is the lag by nova-computes when a heartbeat of any came last; 0 before.
	ofComputes time.Duration
	// last is what was judged last. resumed is the first reading with other heartbeats after a time in
	// which none came, spared the nova-computes that were up when that began; zero for none.
	last    *Snapshot
	resumed time.Time
	spared  map[int64]bool
}

// beating is a row of services with a heartbeat.
type beating struct {
	seen time.Time
	// moved is the reading by which its heartbeat was another; zero: it was not yet.
	moved   time.Time
	reading uint64
	compute bool
}

// pulse is what a Watch knew of the copy that a snapshot was read from.
type pulse struct {
	watched bool
	// moved is the server's time of the newest reading with another heartbeat than the one before;
	// zero for none.
	moved time.Time
	// sure: enough heartbeats were seen to come, or it was watched for as long as takes.
	sure bool
	// lag is how old they are as they come, then: more than half of those that do are as old. It is 0
	// where they are of the future.
	lag time.Duration
	// spared are up until the server's time until, whatever their heartbeats: nobody wrote for a
	// while, and they have not had the time to beat again.
	spared map[int64]bool
	until  time.Time
	// begun is the newest heartbeat when it was read first, where nobody wrote then, and who beat
	// lately before it has not had the time to beat again; else zero.
	begun time.Time
}

// Judge gives a snapshot that was read at a time of a monotonic clock, with what all readings till then
// tell: whether anybody writes to the database, and how far a copy is behind. Readings come in their
// order.
//
//	first                  nothing is known
//	with other heartbeats  somebody writes: what Up gives is of that moment
//	with the same          nobody has written since: what Up gives stays
func (w *Watch) Judge(x *Snapshot, at time.Time, down time.Duration) *Snapshot {
	before := w.moved
	w.noteHeartbeats(x, at)
	w.resume(before, at, down)
	w.begin(x, before, at, down)
	y := *x
	y.pulse = pulse{watched: true}
	defer func() { w.last = &y }()
	if w.moved.IsZero() {
		return &y
	}
	y.pulse.moved = x.At.Add(-at.Sub(w.moved))
	if !w.resumed.IsZero() {
		y.pulse.spared, y.pulse.until = w.spared, x.At.Add(-at.Sub(w.resumed)).Add(down)
	}
	if !w.back.IsZero() && w.moved.Sub(w.back) < down {
		y.pulse.begun = w.begun
	}
	lag, computes := w.lag(x.At, at, down)
	lately := 0
	for i := range x.Services {
		if x.Services[i].beatLately(x.At, down) {
			lately++
		}
	}
	if y.pulse.sure = 2*computes > lately || at.Sub(w.since) >= down/2; y.pulse.sure {
		y.pulse.lag = lag
	}
	return &y
}

// longDead is for how many times down a service was silent that is dead, of whatever copy that is not
// Silent, and whatever clocks: the one may be behind by twice down, the others by one.
const longDead = 5

// beatLately reports whether a service beat, and is not longDead at a time.
func (s *Service) beatLately(at time.Time, down time.Duration) bool {
	return !s.LastSeenUp.IsZero() && at.Sub(s.LastSeenUp) < longDead*down
}

// noteHeartbeats notes which heartbeats are others than in the reading before. One that is earlier is of a clock that
// was set, or of another server: where that one is behind, lag has it.
func (w *Watch) noteHeartbeats(x *Snapshot, at time.Time) {
	if w.rows == nil {
		w.rows, w.since = map[int64]beating{}, at
	}
	w.reading++
	take := func(id int64, seen time.Time, compute bool) {
		if seen.IsZero() {
			return
		}
		b, known := w.rows[id]
		if known && !seen.Equal(b.seen) {
			b.moved, w.moved = at, at
		}
		w.rows[id] = beating{seen: seen, moved: b.moved, reading: w.reading, compute: compute}
	}
	for i := range x.Services {
		take(x.Services[i].ID, x.Services[i].LastSeenUp, true)
	}
	for i := range x.Others {
		take(x.Others[i].ID, x.Others[i].Seen, false)
	}
	maps.DeleteFunc(w.rows, func(_ int64, b beating) bool { return b.reading != w.reading })
}

// resume notes that heartbeats come again. Nova has down be two and a half times what is between two of
// them, so where none came for half of it each service has missed one. Where those of most nova-computes
// come at once they went on while nothing was read.
func (w *Watch) resume(before, at time.Time, down time.Duration) {
	if !w.resumed.IsZero() && w.moved.Sub(w.resumed) > down {
		w.resumed, w.spared = time.Time{}, nil
	}
	if before.IsZero() || !w.moved.Equal(at) || at.Sub(before) <= down/2 || w.last == nil {
		return
	}
	up, beat := map[int64]bool{}, 0
	for i := range w.last.Services {
		if s := &w.last.Services[i]; w.last.Up(s, w.last.At, down) {
			up[s.ID] = true
			if w.rows[s.ID].moved.Equal(at) {
				beat++
			}
		}
	}
	w.resumed, w.spared = time.Time{}, nil
	if 2*beat <= len(up) {
		w.resumed, w.spared = at, up
	}
}

// begin notes whether nobody wrote when the readings began, and when somebody did again: who beat
// before that is not known to be up, nor to be down. One clock that is ahead hides no silence: of
// most services the heartbeats are older than half of down then, or none comes for as long.
func (w *Watch) begin(x *Snapshot, before, at time.Time, down time.Duration) {
	if w.reading == 1 {
		if w.begun = x.Heartbeat; w.begun.IsZero() {
			w.begun = x.At
		}
		w.silent = x.mostOld(w.begun, down)
	}
	switch {
	case !w.moved.Equal(at):
	case before.IsZero():
		if w.silent || at.Sub(w.since) > down/2 {
			w.back = at
		}
	case !w.back.IsZero() && before.Sub(w.back) < down && at.Sub(before) > down/2:
		w.back = at
	}
}

// mostOld reports whether of most services that beat lately before a time the newest heartbeat is older
// than half of down.
func (x *Snapshot) mostOld(begun time.Time, down time.Duration) bool {
	lately, old := 0, 0
	take := func(seen time.Time) {
		if s := (Service{LastSeenUp: seen}); s.beatLately(begun, down) {
			if lately++; x.At.Sub(seen) > down/2 {
				old++
			}
		}
	}
	for i := range x.Services {
		take(x.Services[i].LastSeenUp)
	}
	for i := range x.Others {
		take(x.Others[i].Seen)
	}
	return 2*old > lately
}

// lag is pulse.lag, by the heartbeats of nova-compute that came in the last half of down before the
// newest of any, of as many as computes; where none did, by those that came last.
func (w *Watch) lag(server, at time.Time, down time.Duration) (lag time.Duration, computes int) {
	var ages []time.Duration
	for _, b := range w.rows {
		if b.compute && !b.moved.IsZero() && w.moved.Sub(b.moved) <= down/2 {
			ages = append(ages, server.Add(-at.Sub(b.moved)).Sub(b.seen))
		}
	}
	if len(ages) > 0 {
		w.ofComputes = most(ages)
	}
	return w.ofComputes, len(ages)
}

// most is the age that more than half of some have, or more.
func most(ages []time.Duration) time.Duration {
	slices.Sort(ages)
	return max(0, ages[(len(ages)-1)/2])
}
