package cell

import (
	"strings"
	"time"

	"cellgate/internal/telemetry"
)

// reading is what is read of the replica by who watches it.
func (c *Cell) reading() (r telemetry.CellReading, ok bool) {
	if c.loaded() != nil {
		return r, false
	}
	t := c.newestSummary().GetTotals()
	r.Hosts, r.HostsUp = int64(t.GetHosts()), int64(t.GetHostsUp())
	r.HostsImported, r.HostsWithheld = int64(t.GetHostsImported()), int64(t.GetHostsWithheld())
	r.Pending, r.Confirmed = int64(t.GetClaimsPending()), int64(t.GetClaimsConfirmed())
	r.QueuedUrgent, r.QueuedOther = c.queue.Waiting()
	r.Pinned = c.versions.Count()
	r.StoreAhead = c.table.StoreTime.Ahead()
	if g := c.rows.GateRow(); g != nil {
		of := c.gate.Reading()
		r.Gate, r.GateEpoch = strings.ToLower(string(g.State)), g.Epoch
		r.GateLagging, r.GateAwaited = of.Lagging, c.rows.AwaitedCount()
		r.GateBehind, r.GateReadingLag = of.Behind, of.Lag
		r.GateDiffering, r.GateRowsAge = of.Differing, c.table.Imports.Age(g)
	}
	r.JournalAge = time.Since(c.journal.LastEnd())
	r.Findings, r.Compared, r.ReconcileAge = c.reconcile.Reading()
	return r, true
}
