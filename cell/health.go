package cell

import (
	"fmt"
	"strings"
	"time"

	"cellgate/internal/health"
	"cellgate/internal/telemetry"
	"cellgate/shard"
)

// Health reports whether the replica is alive and ready. Alive: no transaction hangs. Ready: alive, not
// stopping, the store does not fail, and the table is loaded or the store finds hosts itself until
// then. The lease scan reads the store every Config.LeaseScan, and writes to it while writes fail, so
// that a recovered store is noticed without a request.
func (c *Cell) Health() *health.Monitor { return c.health }

func (c *Cell) aliveChecks() []health.Check {
	check := health.Check{Name: "transactions", OK: true}
	if d := c.table.Stored.InFlight(); d > 2*shard.ApplyLimit {
		check.OK, check.Why = false, fmt.Sprintf("one has not come back for %v", d.Round(time.Second))
	}
	return []health.Check{check}
}

func (c *Cell) readyChecks() []health.Check {
	table := health.Check{Name: "table", OK: true}
	if err := c.serving(); err != nil {
		table.OK, table.Why = false, err.Error()
	} else if c.loading() {
		table.Why = "is being loaded; until it is, requests are answered by what the shard finds itself, which is slower"
	}
	store := health.Check{Name: "store", OK: true}
	if err := c.table.Stored.WhyFailing(); err != nil {
		store.OK, store.Why = false, err.Error()
	}
	return append(c.aliveChecks(), table, store)
}

// reading returns the replica's values for metrics; ok is false while the table is being loaded.
func (c *Cell) reading() (r telemetry.CellReading, ok bool) {
	if c.loaded() != nil {
		return r, false
	}
	t := c.newestSummary().GetTotals()
	r.Hosts, r.HostsUp = int64(t.GetHosts()), int64(t.GetHostsUp())
	r.HostsImported, r.HostsWithheld = int64(t.GetHostsImported()), int64(t.GetHostsWithheld())
	r.Pending, r.Confirmed = int64(t.GetClaimsPending()), int64(t.GetClaimsConfirmed())
	r.Packing = c.packing.read(c)
	r.QueuedUrgent, r.QueuedOther = c.queue.Waiting()
	r.StoreAhead = c.table.StoreTime.Ahead()
	if g := c.rows.GateRow(); g != nil {
		of := c.gate.Reading()
		r.Gate, r.GateEpoch = strings.ToLower(string(g.State)), g.Epoch
		r.GateLagging, r.GateReadingLag = of.Lagging, of.Lag
		r.GateRowsAge = c.table.Imports.Age(g)
	}
	r.JournalAge = time.Since(c.journal.LastEnd())
	r.Findings, r.Compared, r.ReconcileAge = c.reconcile.Reading()
	return r, true
}
