package cell

import (
	"context"
	"sync"
	"time"
)

// liveness knows when each host was last heard, and so which are down. A host
// that was never heard in this life of the replica is down when its row says that
// its agent is silent (silence.go), and else counts from when the replica
// first knew of it. Time in which the replica itself did not run is no silence of
// its hosts: what they said meanwhile may wait to be read.
type liveness struct {
	downAfter time.Duration
	now       func() time.Time

	mu    sync.Mutex
	hosts map[string]*sign
	// changed are hosts whose state the table does not show yet; nudge has one
	// element while there are some.
	changed map[string]struct{}
	nudge   chan struct{}
	// unsaid are hosts that are down here, and back those that were heard, while their
	// rows say otherwise.
	unsaid, back map[string]struct{}
}

// sign is a host's last sign of life.
type sign struct {
	at    time.Time
	heard bool
	down  bool
	// said: the host's row says that its agent is silent. byRow: it is down for that alone.
	said, byRow bool
	// denied counts how often the row came to say otherwise while the host was down here:
	// another replica hears it. sayAgain is when the row may be told once more.
	denied   uint
	sayAgain time.Time
	// agents: the host's row is an agent's. registered is when the newest of those came,
	// from whatever replica.
	agents     bool
	registered time.Time
}

func newLiveness(downAfter time.Duration, now func() time.Time) *liveness {
	return &liveness{
		downAfter: downAfter, now: now,
		hosts: map[string]*sign{}, changed: map[string]struct{}{}, nudge: make(chan struct{}, 1),
		unsaid: map[string]struct{}{}, back: map[string]struct{}{},
	}
}

// watch takes a new row of a host: it starts the host's grace, unless that is known.
func (l *liveness) watch(host string, imported bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		s = &sign{at: l.now()}
		l.hosts[host] = s
	}
	if s.agents = !imported; s.agents {
		s.registered = l.now()
		if s.down && !s.said {
			l.unsaid[host] = struct{}{}
		}
	}
}

// heard takes a sign of life.
func (l *liveness) heard(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		s = &sign{}
		l.hosts[host] = s
	}
	s.at, s.heard = l.now(), true
	s.byRow, s.denied, s.sayAgain = false, 0, time.Time{}
	delete(l.unsaid, host)
	if s.said {
		l.back[host] = struct{}{}
	}
	if s.down {
		s.down = false
		l.noteChanged(host)
	}
}

// lastSeen gives when the host was heard, zero when not in this life, and
// whether it is up.
func (l *liveness) lastSeen(host string) (at time.Time, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		return time.Time{}, false
	}
	if s.heard {
		at = s.at
	}
	return at, !s.down
}

// interval is how often check is to run.
func (l *liveness) interval() time.Duration { return max(l.downAfter/20, time.Millisecond) }

// stalls is how many intervals may be between two checks before the replica, and not
// its hosts, is what stood still.
const stalls = 5

// excuse begins all hosts' time anew, as a start does: their agents may have to
// connect again.
func (l *liveness) excuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, s := range l.hosts {
		s.at = now
	}
}

// check marks the hosts that were silent for too long.
func (l *liveness) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for host, s := range l.hosts {
		if !s.down && now.Sub(s.at) >= l.downAfter {
			s.down = true
			delete(l.back, host)
			if s.agents && !s.said {
				l.unsaid[host] = struct{}{}
			}
			l.noteChanged(host)
		}
	}
}

// turn has the table show a host anew.
func (l *liveness) turn(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host] != nil {
		l.noteChanged(host)
	}
}

func (l *liveness) noteChanged(host string) {
	l.changed[host] = struct{}{}
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}

// takeChanged gives the hosts whose state changed, with down as it is now.
func (l *liveness) takeChanged() map[string]bool {
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

// downHosts gives the hosts that are down, and how many are known.
func (l *liveness) downHosts() (down map[string]struct{}, known int) {
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

// run checks until ctx ends, twenty times in the time a host may be silent, and
// calls after each time.
func (l *liveness) run(ctx context.Context, after func(context.Context)) error {
	tick := time.NewTicker(l.interval())
	defer tick.Stop()
	last := l.now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			now := l.now()
			if now.Sub(last) > stalls*l.interval() {
				l.excuse()
			}
			last = now
			l.check()
			after(ctx)
		}
	}
}
