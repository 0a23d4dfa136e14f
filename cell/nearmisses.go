package cell

import (
	"sync"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// nearMissShare is which part of one processor near misses take of a replica, at most: they cost ten times as much as a
	// query, and refusals must not crowd out selections.
	nearMissShare = 0.25
	// nearMissBurst is how much work may come at once.
	nearMissBurst = 250 * time.Millisecond
)

// nearMissBudget bounds the work on near misses. A query that comes while it is spent is answered without them. Safe for
// concurrent use.
type nearMissBudget struct {
	mu     sync.Mutex
	left   time.Duration
	filled time.Time
}

func newNearMissBudget(now time.Time) *nearMissBudget {
	return &nearMissBudget{left: nearMissBurst, filled: now}
}

// mayLook reports whether a query's near misses may be looked for.
func (b *nearMissBudget) mayLook(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := now.Sub(b.filled); since > 0 {
		b.left = min(nearMissBurst, b.left+time.Duration(float64(since)*nearMissShare))
		b.filled = now
	}
	return b.left > 0
}

// spend counts the work that a query was.
func (b *nearMissBudget) spend(took time.Duration) {
	b.mu.Lock()
	b.left -= took
	b.mu.Unlock()
}

// spareNearMisses has a query ask for no near misses if the budget is spent.
func (c *Cell) spareNearMisses(q *cellv1.Query) {
	if q.GetNearMisses() > 0 && !c.nearMisses.mayLook(time.Now()) {
		q.NearMisses = 0
		c.tel.NearMissesSpared()
	}
}

// countNearMisses counts the work of a query that asked for near misses.
func (c *Cell) countNearMisses(q *cellv1.Query, took time.Duration) {
	if q.GetNearMisses() > 0 {
		c.nearMisses.spend(took)
		c.tel.NearMisses(took)
	}
}
