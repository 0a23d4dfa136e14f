package cell

import (
	"time"

	"cellgate/shard"
)

// maxElsewhere: 2^6 times.
const maxElsewhere = 6

// retake says what is taken back when a host's service is old: what its agent
// registered, or nothing, for now, when the agent may be alive. wait is then how long it
// counts as alive if nothing is heard of it.
//
// An agent has a stream to each replica, and a replica does not know of another's. So
// one that hears an agent no more may be alone with that. What it does know of the
// others is what they wrote: each registration that another replica took begins the
// time anew, and an agent that comes back elsewhere has it doubled. What the shard has by
// then is compared in the transaction that takes the host.
func (c *Cell) retake(host string) (from *shard.Registration, wait time.Duration) {
	row := c.rows.host(host)
	if row == nil || row.host == nil || row.host.Imported {
		return nil, c.live.downAfter // if the shard has another row by now
	}
	if c.sessions.open(host) {
		return nil, c.live.downAfter
	}
	if wait = c.live.goneIn(host); wait > 0 {
		return nil, wait
	}
	r := row.host.Registration()
	return &r, c.live.downAfter
}

// goneIn is how long it takes, without a sign of life, until a host's agent counts as
// gone; 0 or less when it does.
func (l *liveness) goneIn(host string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.hosts[host]
	if s == nil {
		return l.downAfter
	}
	now := l.now()
	// A state that another replica took says less than a heartbeat: it may be the last
	// that this one hears of for long.
	written := (l.downAfter + l.downAfter/2) << min(s.elsewhere, maxElsewhere)
	return max(l.downAfter-now.Sub(s.at), written-now.Sub(s.registered))
}
