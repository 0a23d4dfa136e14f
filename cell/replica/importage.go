package replica

import (
	"fmt"
	"time"

	"cellgate/cell/liveness"
	"cellgate/shard"
)

const (
	// MaxRowsAge is how old imported rows may be to answer requests. If the importing gateway dies,
	// another one takes over within that time.
	MaxRowsAge = 30 * time.Second
	// RowsEvery is the least time between two records of an import in the gate's row.
	RowsEvery = time.Second
)

// importAge knows the age of the import of Nova's tables.
type importAge struct {
	rows  *Rows
	live  *liveness.Tracker
	store *storeTimeWatch
}

// Age is how long ago all of Nova's tables were imported, by store time; negative for never.
func (i *importAge) Age(g *shard.Gate) time.Duration {
	if g == nil || g.RowsAt.IsZero() {
		return -1
	}
	return max(0, i.store.Now().Sub(g.RowsAt))
}

// WhyUnavailable says why a cell does not answer requests under a gate; "" if it does. While Nova's
// tables report its hosts, the cell is unavailable if no gateway imports them.
func (i *importAge) WhyUnavailable(g *shard.Gate) string {
	if g.Native() {
		return ""
	}
	switch age := i.Age(g); {
	case age < 0:
		return fmt.Sprintf("the cell's gate is %s: Nova's tables report its hosts, and no gateway has imported all of them yet (gateway.legacy)", g.State)
	case age > MaxRowsAge:
		return fmt.Sprintf("the cell's gate is %s: Nova's tables report its hosts, and were last imported %s ago", g.State, age.Round(time.Second))
	}
	return ""
}

// Check takes imported hosts down while the import of Nova's tables is too old.
func (i *importAge) Check() {
	age := i.Age(i.rows.GateRow())
	stale := age < 0 || age > MaxRowsAge
	if i.rows.importsStale.Swap(stale) == stale {
		return
	}
	i.rows.mu.RLock()
	defer i.rows.mu.RUnlock()
	for uuid, row := range i.rows.hosts {
		if row.Host != nil && row.Host.Imported {
			i.live.MarkChanged(uuid)
		}
	}
}
