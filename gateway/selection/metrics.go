package selection

import (
	"context"
	"errors"

	"cellgate/gateway/cellclient"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// recordMetrics counts the results of a selection when it ends, and sets the attributes of
// its span. resp is nil if it failed.
func (s *selection) recordMetrics(ctx context.Context, resp *cellgatev1.SelectDestinationsResponse) {
	for i, c := range s.cells {
		r := c.report
		for _, reject := range r.GetRejects() {
			s.svc.Telemetry.Rejected(reject.GetFilter(), int(reject.GetHosts()))
			if reject.GetDetail() == schedule.Unreadable {
				s.svc.Telemetry.Unreadable(reject.GetFilter(), int(reject.GetHosts()))
				s.svc.logReject(ctx, s.svc.Cells.All[i].Name(), reject)
			}
		}
		for _, w := range r.GetWarnings() {
			s.svc.Telemetry.Unreadable(schedule.ReaderOf(w.GetKey()), int(w.GetHosts()))
			s.svc.logWarning(ctx, s.svc.Cells.All[i].Name(), w)
		}
	}
	span := telemetry.Current(ctx)
	span.Int(telemetry.AttrCount, len(s.instances))
	if resp == nil {
		return
	}
	for i, r := range resp.GetCells() {
		outcome := r.GetOutcome().String()
		if errors.Is(s.cells[i].lost, cellclient.ErrDeadlineTooShort) {
			outcome = "deadline_too_short"
		}
		s.svc.Cells.All[i].Telemetry.Searched(outcome)
	}
	s.svc.Telemetry.Answered(len(s.instances), s.inexact, resp.GetPartial())
	if span.On() {
		span.Text(telemetry.AttrDecision, resp.GetDecisionId())
		span.Bool(telemetry.AttrExact, resp.GetExact())
	}
}

// logReject logs hosts that a filter cannot read, for which Nova would raise an exception. The log is throttled; the
// metric counts all of them.
func (svc *Service) logReject(ctx context.Context, cell string, r *cellgatev1.RejectCount) {
	svc.unreadable.Warn(ctx, cell+" "+r.GetFilter(), int(r.GetHosts()), "hosts are left out: a filter cannot read them, and Nova would fail the request",
		"cell", cell, "filter", r.GetFilter(), "hosts", r.GetHosts(), "host", r.GetExample(), "class", r.GetExceptionClass(), "message", r.GetExceptionMessage())
}

// logWarning logs hosts that pass although some of their data cannot be read; a default counts instead.
func (svc *Service) logWarning(ctx context.Context, cell string, w *cellgatev1.WarningCount) {
	key, hosts := cell+" "+w.GetKey(), int(w.GetHosts())
	if w.GetExceptionClass() == "" {
		svc.unreadable.Warn(ctx, key, hosts, "hosts have a value that cannot be read; a default replaces it", "cell", cell,
			"key", w.GetKey(), "hosts", hosts, "host", w.GetExample())
		return
	}
	svc.unreadable.Warn(ctx, key, hosts, "hosts are weighed by a default: a weigher cannot read them, and Nova fails requests that weigh them", "cell", cell,
		"weigher", w.GetKey(), "hosts", hosts, "host", w.GetExample(), "class", w.GetExceptionClass(), "message", w.GetExceptionMessage())
}
