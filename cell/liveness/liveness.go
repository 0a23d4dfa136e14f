package liveness

import (
	"context"
	"sync"
	"time"
)

// Tracker knows when each host was last seen, and so which hosts are down. A host that this incarnation
// of the replica has not seen yet is down if its row is marked as silent (marks.go). Otherwise its time
// starts when the replica first knew of it. Time in which the replica itself did not run does not count
// as silence: the hosts' messages may wait to be read.
type Tracker struct {
	downAfter time.Duration
	now       func() time.Time

	mu    sync.Mutex
	hosts map[string]*sign
	// changed are hosts whose up or down state the table does not show yet; Nudge has one element while
	// there are some.
	changed map[string]struct{}
	Nudge   chan struct{}
	// toMark are hosts that are down here but not marked; toClear are hosts that were seen but are
	// marked.
	toMark, toClear map[string]struct{}
}

// sign is a host's last sign of life.
type sign struct {
	at   time.Time
	seen bool
	down bool
	// marked: the host's row is marked as silent. downByMark: the mark alone takes the host down.
	marked, downByMark bool
	// agents: an agent reports the host's row. registered is when the newest such row arrived, from any
	// replica.
	agents     bool
	registered time.Time
}

// New makes a tracker that has seen no host.
func New(downAfter time.Duration, now func() time.Time) *Tracker {
	return &Tracker{
		downAfter: downAfter, now: now,
		hosts: map[string]*sign{}, changed: map[string]struct{}{}, Nudge: make(chan struct{}, 1),
		toMark: map[string]struct{}{}, toClear: map[string]struct{}{},
	}
}

// NoteRow records a new row of a host. If the host is new, its time to be seen starts.
func (l *Tracker) NoteRow(host string, imported bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		s = &sign{at: l.now()}
		l.hosts[host] = s
	}
	if s.agents = !imported; s.agents {
		s.registered = l.now()
		if s.down && !s.marked {
			l.toMark[host] = struct{}{}
		}
	}
}

// NoteSeen notes a sign of life.
func (l *Tracker) NoteSeen(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		s = &sign{}
		l.hosts[host] = s
	}
	s.at, s.seen = l.now(), true
	s.downByMark = false
	delete(l.toMark, host)
	if s.marked {
		l.toClear[host] = struct{}{}
	}
	if s.down {
		s.down = false
		l.noteChanged(host)
	}
}

// LastSeen gives when this incarnation of the replica last saw the host, zero for never, and
// whether the host is up.
func (l *Tracker) LastSeen(host string) (at time.Time, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		return time.Time{}, false
	}
	if s.seen {
		at = s.at
	}
	return at, !s.down
}

// Interval is how often Check should run.
func (l *Tracker) Interval() time.Duration { return max(l.downAfter/20, time.Millisecond) }

// stalls is the number of intervals between two checks beyond which the replica itself, and not its
// hosts, stood still.
const stalls = 5

// excuse restarts the time of all hosts, as a start does: their agents may have to connect again.
func (l *Tracker) excuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, s := range l.hosts {
		s.at = now
	}
}

// Check takes down the hosts that were silent for too long.
func (l *Tracker) Check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for host, s := range l.hosts {
		if !s.down && now.Sub(s.at) >= l.downAfter {
			s.down = true
			delete(l.toClear, host)
			if s.agents && !s.marked {
				l.toMark[host] = struct{}{}
			}
			l.noteChanged(host)
		}
	}
}

// MarkChanged makes the table update a host's state.
func (l *Tracker) MarkChanged(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host] != nil {
		l.noteChanged(host)
	}
}

func (l *Tracker) noteChanged(host string) {
	l.changed[host] = struct{}{}
	select {
	case l.Nudge <- struct{}{}:
	default:
	}
}

// DrainChanged returns the hosts whose state changed since the last call, and whether each is down.
func (l *Tracker) DrainChanged() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.changed) == 0 {
		return nil
	}
	out := make(map[string]bool, len(l.changed))
	for host := range l.changed {
		out[host] = l.hosts[host].down
	}
	clear(l.changed)
	return out
}

// DownHosts gives the hosts that are down, and how many are known.
func (l *Tracker) DownHosts() (down map[string]struct{}, known int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	down = map[string]struct{}{}
	for host, s := range l.hosts {
		if s.down {
			down[host] = struct{}{}
		}
	}
	return down, len(l.hosts)
}

// Run checks until ctx ends, twenty times in the time that a host may be silent. It calls after
// following each check.
func (l *Tracker) Run(ctx context.Context, after func(context.Context)) error {
	tick := time.NewTicker(l.Interval())
	defer tick.Stop()
	last := l.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			now := l.now()
			if now.Sub(last) > stalls*l.Interval() {
				l.excuse()
			}
			last = now
			l.Check()
			after(ctx)
		}
	}
}
