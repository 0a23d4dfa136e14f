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
