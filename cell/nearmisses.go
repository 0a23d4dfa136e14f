package cell

import (
	"sync"
	"time"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// nearMissShare is the largest part of one processor that near misses may use. They cost ten times
	// as much as a query, and refusals must not crowd out selections.
	nearMissShare = 0.25
	// nearMissBurst is how much work may be done at once.
	nearMissBurst = 250 * time.Millisecond
)

// nearMissBudget bounds the work on near misses. While the budget is spent, queries are answered
// without near misses. Safe for concurrent use.
type nearMissBudget struct {
	mu     sync.Mutex
	left   time.Duration
	filled time.Time
}

func newNearMissBudget(now time.Time) *nearMissBudget {
	return &nearMissBudget{left: nearMissBurst, filled: now}
}

// hasLeft reports whether the budget allows the work on a query's near misses.
func (b *nearMissBudget) hasLeft(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := now.Sub(b.filled); since > 0 {
		b.left = min(nearMissBurst, b.left+time.Duration(float64(since)*nearMissShare))
		b.filled = now
	}
	return b.left > 0
}

// spend subtracts the work of a query.
func (b *nearMissBudget) spend(took time.Duration) {
	b.mu.Lock()
	b.left -= took
	b.mu.Unlock()
}

// spareNearMisses removes the request for near misses from a query if the budget is spent.
func (c *Cell) spareNearMisses(q *cellv1.Query) {
	if q.GetNearMisses() > 0 && !c.nearMisses.hasLeft(time.Now()) {
		q.NearMisses = 0
		c.tel.NearMissesSpared()
	}
}

// countNearMisses counts the work of a query that asked for near misses.
func (c *Cell) countNearMisses(q *cellv1.Query, took time.Duration) {
	if q.GetNearMisses() > 0 {
		c.nearMisses.spend(took)
	}
}
