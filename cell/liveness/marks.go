package liveness

import (
	"slices"

	"cellgate/shard"
)

// FollowMark notes whether a host's row is marked as silent, and reports whether the host is down.
// The mark counts while this replica has not seen the host: setting it takes the host down at once,
// clearing it begins the host's time again. A host that is down here and whose mark another replica
// clears is not marked again before it was seen here, or has a new row.
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

// PendingMarks gives at most limit hosts whose rows are to be marked as silent, or not any more:
// first those that were seen since their row was marked, then those that are down.
// The time of a host that registered at another replica begins then.
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

// DropMark forgets a host of PendingMarks that the shard does not mark.
func (l *Tracker) DropMark(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.toMark, host)
}
