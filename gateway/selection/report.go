package selection

import (
	"cmp"

	"cellgate/gateway/cellclient"
	"cellgate/internal/wire"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// report records what the cells of a merge looked at. Only the first merge of a request
// counts: later ones see hosts with the request's own claims.
func (s *selection) report(m *merged) {
	for k, cell := range m.cells {
		if s.cells[cell].report == nil {
			if s.cells[cell].report = reportOf(m.before(k)); s.cells[cell].report != nil {
				s.cells[cell].report.TableVersion = m.versions[k]
			}
		}
	}
}

// before gives a cell's proposal from before the first pick; nil if the cell is lost.
func (m *merged) before(k int) *schedule.Proposal {
	if m.result != nil && m.result.First[k] != nil {
		return m.result.First[k]
	}
	return m.answers[k]
}

func reportOf(p *schedule.Proposal) *cellgatev1.CellReport {
	if p == nil {
		return nil
	}
	return &cellgatev1.CellReport{
		Outcome: cellgatev1.CellOutcome_SEARCHED,
		Hosts:   int32(p.Hosts), Passed: int32(p.Passed), Rejects: wire.EncodeRejects(p.Rejects), Warnings: wire.EncodeWarnings(p.Warnings),
	}
}

// cellReports gives the reports of the cells, in their order, without cells that were neither
// asked nor left out since the request ended before. partial is true if a cell that should be
// asked did not answer.
func (s *selection) cellReports() (reports []*cellgatev1.CellReport, partial bool) {
	for i, c := range s.svc.Cells.All {
		r := &cellgatev1.CellReport{}
		if s.cells[i].report != nil {
			r = s.cells[i].report
		}
		switch {
		case s.cells[i].lost != nil:
			r.Outcome, r.Reason = cellgatev1.CellOutcome_UNAVAILABLE, cellclient.ReasonOf(s.cells[i].lost)
			partial = true
		case s.cells[i].skip != "":
			r.Outcome, r.Reason = cellgatev1.CellOutcome_SKIPPED, s.cells[i].skip
		}
		if r.GetOutcome() == cellgatev1.CellOutcome_CELL_OUTCOME_UNSPECIFIED {
			continue
		}
		var why string
		r.Cell = c.Name()
		r.Source, why = s.svc.Gates.Source(c, s.cells[i].gate)
		r.Reason = cmp.Or(r.GetReason(), why)
		reports = append(reports, r)
	}
	return reports, partial
}
