package cell

import (
	"fmt"
	"time"

	"cellgate/cell/liveness"
	"cellgate/shard"
)

const (
	// maxRowsAge is how long hosts are answered for by rows that were imported: longer than
	// another gateway takes to go on with it, when the one that imports dies.
	maxRowsAge = 30 * time.Second
	// rowsEvery is how often it is written, at most, that rows are imported.
	rowsEvery = time.Second
)

// importAge knows how old what was imported of Nova's tables is.
type importAge struct {
	rows  *rows
	live  *liveness.Tracker
	store *storeTimeWatch
}

// under is how long ago all that Nova's tables said was imported, by store time; less
// than 0 for never.
func (i *importAge) under(g *shard.Gate) time.Duration {
	if g == nil || g.RowsAt.IsZero() {
		return -1
	}
	return max(0, i.store.now().Sub(g.RowsAt))
}

// unavailable says why a cell does not answer requests under a gate; "" when it does. While
// Nova's tables speak for its hosts, that is when nobody imports what they say.
func (i *importAge) unavailable(g *shard.Gate) string {
	if g.Native() {
		return ""
	}
	switch age := i.under(g); {
	case age < 0:
		return fmt.Sprintf("the cell's gate is %s: Nova's tables speak for its hosts, and no gateway has imported all of them yet (gateway.legacy)", g.State)
	case age > maxRowsAge:
		return fmt.Sprintf("the cell's gate is %s: Nova's tables speak for its hosts, and were last imported %s ago", g.State, age.Round(time.Second))
	}
	return ""
}

// check has imported hosts count as down while what Nova's tables say of them is too old.
func (i *importAge) check() {
	age := i.under(i.rows.gateRow())
	stale := age < 0 || age > maxRowsAge
	if i.rows.stale.Swap(stale) == stale {
		return
	}
	i.rows.mu.RLock()
	defer i.rows.mu.RUnlock()
	for uuid, row := range i.rows.hosts {
		if row.host != nil && row.host.Imported {
			i.live.MarkChanged(uuid)
		}
	}
}
