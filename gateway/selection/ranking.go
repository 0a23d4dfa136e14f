package selection

import (
	"slices"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/schedule/merge"
)

// ranking is what the decision keeps of the ranking that placed the first instance; nil when this call did not place
// it.
func (s *selection) ranking() *cellv1.Ranking {
	if s.first == nil {
		return nil
	}
	r := s.first.result
	leaders, winner := r.Leaders, &r.Picks[0]
	if !slices.ContainsFunc(leaders, func(l merge.Leader) bool { return l.Candidate.Host == winner.Candidate.Host }) {
		leaders = append(slices.Clip(leaders), merge.Leader{Cell: winner.Cell, Candidate: &winner.Candidate})
	}
	n := len(leaders)
	texts := make([]string, 4*n)
	out := &cellv1.Ranking{
		Uuids: make([]byte, 0, n*len(schedule.ID{})), Ties: make([]uint64, n),
		Cells: texts[:n:n], ServiceHosts: texts[n : 2*n : 2*n], Nodenames: texts[2*n : 3*n : 3*n], Zones: texts[3*n:],
	}
	for i := range leaders {
		c := leaders[i].Candidate
		out.Uuids, out.Ties[i] = append(out.Uuids, c.Host[:]...), c.Tie
		out.Cells[i] = s.svc.Cells.All[s.first.cells[leaders[i].Cell]].Name()
		out.ServiceHosts[i], out.Zones[i] = c.ServiceHost, c.Zone
		if c.NodeName != c.ServiceHost {
			out.Nodenames[i] = c.NodeName
		}
	}
	scores := merge.ColumnsOf(s.rules, &r.Known, leaders)
	out.Weighers, out.Multipliers, out.Min, out.Max = scores.Weighers, scores.Multipliers, scores.Min, scores.Max
	out.Raw, out.OwnMultipliers = scores.Raw, scores.Own
	return out
}
