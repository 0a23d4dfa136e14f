package cell

import (
	"context"
	"slices"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

const (
	// silenceBatch is how many hosts' rows are told at once that their agents are silent, or
	// heard again, and silenceEvery how often: when all agents of 10,000 hosts go at once, what
	// the shard hears of it takes 40 s, and claims have their turn in between.
	silenceBatch = 256
	silenceEvery = time.Second
	// maxDenied: 2^6 times.
	maxDenied = 6
)

// told takes what a host's row says of its agent, and gives whether the host is down. It
// counts while this replica has not heard the host itself: a silence that others saw ends
// its time at once, and their hearing it again begins it anew.
func (l *liveness) told(host string, silent bool) (down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		return true
	}
	if s.said == silent {
		return s.down
	}
	s.said = silent
	delete(l.back, host)
	switch {
	case silent:
		delete(l.unsaid, host)
		if !s.heard && !s.down {
			s.down, s.byRow = true, true
		}
	case s.byRow:
		s.down, s.byRow, s.at = false, false, l.now()
	case s.down:
		s.denied++
		s.sayAgain = l.now().Add(l.downAfter << min(s.denied, maxDenied))
		l.unsaid[host] = struct{}{}
	}
	return s.down
}

// toSay gives at most limit hosts whose rows are to be told whether their agents are silent:
// first those that were heard since their row says so, then those that are down.
// One whose silence another replica denied waits, twice as long each time; one that
// registered at another replica has its time from then on.
func (l *liveness) toSay(limit int) []shard.SetSilent {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var back, silent []string
	for host := range l.back {
		back = append(back, host)
	}
	for host := range l.unsaid {
		switch s := l.hosts[host]; {
		case !s.agents:
			delete(l.unsaid, host)
		case !now.Before(s.sayAgain) && now.Sub(s.registered) >= l.downAfter:
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

// unsayable: the shard does not take what toSay gave of the host.
func (l *liveness) unsayable(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unsaid, host)
}

// silences keeps in the shard which hosts' agents are silent, until ctx ends, so that a
// replica that starts knows. Every replica says what it sees; see ADR 20.
func (k *keeper) silences(ctx context.Context) error {
	return k.repeat(ctx, silenceEvery, "which hosts are silent could not be written", func(ctx context.Context) error {
		list := k.live.toSay(silenceBatch)
		if len(list) == 0 {
			return nil
		}
		ops := make([]shard.Op, len(list))
		for i := range list {
			ops[i] = shard.Op{SetSilent: &list[i]}
		}
		answers, err := k.do(ctx, ops, false)
		if err != nil {
			return err
		}
		for i, a := range answers {
			switch {
			case a.err != nil:
				return a.err
			case a.outcome.Refusal != nil:
				return fault.New(a.outcome.Refusal.Kind, "host %s: %s", list[i].HostUUID, a.outcome.Refusal.Message)
			case a.outcome.AdminState.SaidSilent() != list[i].Silent:
				k.live.unsayable(list[i].HostUUID) // no agent speaks for it any more
			}
		}
		return nil
	})
}
