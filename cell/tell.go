package cell

import (
	"strings"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/shard"
)

// opKind names an operation.
func opKind(op shard.Op) telemetry.Op {
	switch {
	case op.PutHost != nil:
		return telemetry.OpPutHost
	case op.Claim != nil:
		return telemetry.OpClaim
	case op.Confirm != nil:
		return telemetry.OpConfirm
	case op.Release != nil:
		return telemetry.OpRelease
	case op.Expire != nil:
		return telemetry.OpExpire
	case op.Pin != nil:
		return telemetry.OpPin
	case op.Unpin != nil:
		return telemetry.OpUnpin
	case op.Swap != nil:
		return telemetry.OpSwap
	case op.Transfer != nil:
		return telemetry.OpTransfer
	case op.TakeOver != nil:
		return telemetry.OpKeep
	case op.PutFacts != nil:
		return telemetry.OpPutFacts
	case op.RecordVerdict != nil:
		return telemetry.OpJudge
	case op.MoveGate != nil:
		return telemetry.OpMoveGate
	case op.SetNovaState != nil:
		return telemetry.OpNovaState
	case op.SetSilent != nil:
		return telemetry.OpSilent
	case op.SetAdminState != nil:
		return telemetry.OpAdmin
	case op.EndMaintenance != nil:
		return telemetry.OpEndMaintenance
	case op.RemoveHost != nil:
		return telemetry.OpRemoveHost
	case op.Audit != nil:
		return telemetry.OpAudit
	}
	return telemetry.OpOther
}

// tell counts what a transaction did; err is why it did nothing.
func (p *pipeline) tell(ops []shard.Op, applied shard.Applied, took time.Duration, err error) {
	p.tel.Transaction(len(ops), took, err)
	for n, op := range ops {
		refused := fault.KindOf(err)
		if err == nil && n < len(applied.Outcomes) {
			out := applied.Outcomes[n]
			if out.Refusal != nil {
				refused = out.Refusal.Kind
			}
			if op.PutHost != nil {
				p.tel.HostPut(out.Adopted, out.ClaimedElsewhere, out.Overcommitted)
			}
		}
		p.tel.Operation(opKind(op), refused)
	}
	if err != nil {
		return
	}
	for _, c := range applied.Entry.Changes {
		if c.Claim != nil && c.Claim.State == shard.Expired {
			p.tel.LeaseExpired()
		}
	}
}

// taken ends the wait of a job whose first operation was taken.
func (p *pipeline) taken(j *job) {
	if !j.since.IsZero() {
		p.tel.QueueWaited(j.urgent, time.Since(j.since))
		j.wait.End(nil)
		j.since = time.Time{}
	}
}

// spans starts a span of that name for each traced job of a batch; a job's
// operations stand together in it.
func (p *pipeline) spans(batch []item, name telemetry.SpanName) []telemetry.Span {
	var all []telemetry.Span
	var last *job
	for _, i := range batch {
		if i.job == last {
			continue
		}
		last = i.job
		if _, s := p.tel.Span(i.job.ctx, name); s.On() {
			all = append(all, s)
		}
	}
	return all
}

func end(spans []telemetry.Span, err error) {
	for _, s := range spans {
		s.End(err)
	}
}

// reading is what is read of the replica by who watches it.
func (c *Cell) reading() (r telemetry.CellReading, ok bool) {
	if c.loaded() != nil {
		return r, false
	}
	t := c.newestSummary().GetTotals()
	r.Hosts, r.HostsUp = int64(t.GetHosts()), int64(t.GetHostsUp())
	r.HostsImported, r.HostsWithheld = int64(t.GetHostsImported()), int64(t.GetHostsWithheld())
	r.Pending, r.Confirmed = int64(t.GetClaimsPending()), int64(t.GetClaimsConfirmed())
	r.QueuedUrgent, r.QueuedOther = c.queue.waiting()
	r.Pinned = c.versions.Count()
	r.StoreAhead = c.table.storeTime.reading()
	if g := c.rows.gateRow(); g != nil {
		of := c.gate.Reading()
		r.Gate, r.GateEpoch = strings.ToLower(string(g.State)), g.Epoch
		r.GateLagging, r.GateAwaited = of.Lagging, c.rows.awaitedCount()
		r.GateBehind, r.GateReadingLag = of.Behind, of.Lag
		r.GateDiffering, r.GateRowsAge = of.Differing, c.table.imports.under(g)
	}
	r.JournalAge = time.Since(c.journal.lastEnd())
	r.Findings, r.Compared, r.ReconcileAge = c.reconcile.reading()
	return r, true
}
