package liveness

import (
	"slices"

	"cellgate/shard"
)

// FollowMark records whether a host's row is marked as silent, and reports whether the host is down.
// The mark counts until this replica has seen the host: setting it takes the host down at once, and
// clearing it restarts the host's time. If another replica clears the mark of a host that is down here,
// this replica does not mark the host again before it has seen the host or has a new row of it.
func (l *Tracker) FollowMark(host string, silent bool) (down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		return true
	}
	if s.marked == silent {
		return s.down
	}
	s.marked = silent
	delete(l.toClear, host)
	switch {
	case silent:
		delete(l.toMark, host)
		if !s.seen && !s.down {
			s.down, s.downByMark = true, true
		}
	case s.downByMark:
		s.down, s.downByMark, s.at = false, false, l.now()
	}
	return s.down
}

// PendingMarks returns at most limit hosts whose marks as silent must be set or cleared: first those
// that were seen since their row was marked, then those that are down. If a host registered at another
// replica, its time starts then.
func (l *Tracker) PendingMarks(limit int) []shard.SetSilent {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var back, silent []string
	for host := range l.toClear {
		back = append(back, host)
	}
	for host := range l.toMark {
		switch s := l.hosts[host]; {
		case !s.agents:
			delete(l.toMark, host)
		case now.Sub(s.registered) >= l.downAfter:
			silent = append(silent, host)
		}
	}
	slices.Sort(back)
	slices.Sort(silent)
	var list []shard.SetSilent
	for n, host := range append(back, silent...) {
		if n == limit {
			break
		}
		list = append(list, shard.SetSilent{HostUUID: host, Silent: n >= len(back)})
	}
	return list
}

// DropMark removes a host from PendingMarks that the shard refuses to mark.
func (l *Tracker) DropMark(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.toMark, host)
}
