package replica

import (
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
		return telemetry.OpTakeOver
	case op.PutFacts != nil:
		return telemetry.OpPutFacts
	case op.RecordVerdict != nil:
		return telemetry.OpRecordVerdict
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
	case op.WritePlacement != nil:
		return telemetry.OpPlacement
	case op.PutName != nil:
		return telemetry.OpPutName
	case op.DeleteName != nil:
		return telemetry.OpDeleteName
	case op.Audit != nil:
		return telemetry.OpAudit
	}
	return telemetry.OpOther
}

// countOutcomes counts the outcomes of a transaction; err is why it changed nothing.
func (p *pipeline) countOutcomes(ops []shard.Op, applied shard.Applied, took time.Duration, err error) {
	p.cfg.Telemetry.Transaction(len(ops), took, err)
	for n, op := range ops {
		refused := fault.KindOf(err)
		if err == nil && n < len(applied.Outcomes) {
			out := applied.Outcomes[n]
			if out.Refusal != nil {
				refused = out.Refusal.Kind
			}
			if op.PutHost != nil {
				p.cfg.Telemetry.HostPut(out.Adopted, out.ClaimedElsewhere, out.Overcommitted)
			}
		}
		p.cfg.Telemetry.Operation(opKind(op), refused)
	}
	if err != nil {
		return
	}
	for _, c := range applied.Entry.Changes {
		if c.Claim != nil && c.Claim.State == shard.Expired {
			p.cfg.Telemetry.LeaseExpired()
		}
	}
}

// endWait ends the wait of a job when its first operation is dequeued.
func (p *pipeline) endWait(j *job) {
	if !j.since.IsZero() {
		p.cfg.Telemetry.QueueWaited(j.urgent, time.Since(j.since))
		j.wait.End(nil)
		j.since = time.Time{}
	}
}

// spans starts a span for each traced job of a batch. The operations of a job are adjacent in the
// batch.
func (p *pipeline) spans(batch []item, name telemetry.SpanName) []telemetry.Span {
	var all []telemetry.Span
	var last *job
	for _, i := range batch {
		if i.job == last {
			continue
		}
		last = i.job
		if _, s := p.cfg.Telemetry.Span(i.job.ctx, name); s.On() {
			all = append(all, s)
		}
	}
	return all
}

func endSpans(spans []telemetry.Span, err error) {
	for _, s := range spans {
		s.End(err)
	}
}
