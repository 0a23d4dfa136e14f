package replica

import (
	"fmt"
	"time"

	"cellgate/cell/liveness"
	"cellgate/shard"
)

const (
	// MaxRowsAge is how long hosts are answered for by rows that were imported: longer than
	// another gateway takes to go on with it, when the one that imports dies.
	MaxRowsAge = 30 * time.Second
	// RowsEvery is how often it is written, at most, that rows are imported.
	RowsEvery = time.Second
)

// importAge knows how old what was imported of Nova's tables is.
type importAge struct {
	rows  *Rows
	live  *liveness.Tracker
	store *storeTimeWatch
}

// Age is how long ago all of Nova's tables was imported, by store time; less
// than 0 for never.
func (i *importAge) Age(g *shard.Gate) time.Duration {
	if g == nil || g.RowsAt.IsZero() {
		return -1
	}
	return max(0, i.store.Now().Sub(g.RowsAt))
}

// WhyUnavailable says why a cell does not answer requests under a gate; "" when it does. While
// Nova's tables report its hosts, that is when nobody imports what they say.
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

// Check has imported hosts count as down while what Nova's tables say of them is too old.
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
