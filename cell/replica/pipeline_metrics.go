package replica

import (
	"reflect"
	"regexp"
	"strings"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/shard"
)

// opNames are the names of operations, by the fields of shard.Op: SetNovaState is nova_state.
var opNames = func() (names []string) {
	word := regexp.MustCompile("(.)([A-Z])")
	for _, f := range reflect.VisibleFields(reflect.TypeFor[shard.Op]()) {
		names = append(names, strings.ToLower(word.ReplaceAllString(strings.TrimPrefix(f.Name, "Set"), "${1}_$2")))
	}
	return names
}()

// opKind names an operation.
func opKind(op *shard.Op) string {
	fields := reflect.ValueOf(op).Elem()
	for i, name := range opNames {
		if !fields.Field(i).IsNil() {
			return name
		}
	}
	return ""
}

// countOutcomes counts the outcomes of a transaction; err is why it changed nothing.
func (p *pipeline) countOutcomes(ops []shard.Op, applied shard.Applied, took time.Duration, err error) {
	p.cfg.Telemetry.Transaction(len(ops), took, err)
	for n := range ops {
		op, refused := &ops[n], fault.KindOf(err)
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
