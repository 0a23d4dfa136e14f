package liveness

import (
	"slices"

	"cellgate/shard"
)

// FollowMark takes what a host's row says of its agent, and gives whether the host is down. It
// counts while this replica has not heard the host itself: a silence that others saw ends
// its time at once, and their hearing it begins it again. A host that is down here and heard by
// another replica is not marked again before it was heard here, or has a new row.
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
		if !s.heard && !s.down {
			s.down, s.downByMark = true, true
		}
	case s.downByMark:
		s.down, s.downByMark, s.at = false, false, l.now()
	}
	return s.down
}

// PendingMarks gives at most limit hosts whose rows are to be marked as silent, or not any more:
// first those that were heard since their row says so, then those that are down.
// One that registered at another replica has its time from then on.
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

// DropMark: the shard does not take what toSay gave of the host.
func (l *Tracker) DropMark(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.toMark, host)
}
