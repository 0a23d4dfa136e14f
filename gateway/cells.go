package gateway

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// listCells asks every configured cell for its state. A cell that does not answer is listed
// with the reason and with its last answer.
func (g *Gateway) listCells(ctx context.Context) []*cellgatev1.Cell {
	return g.showCells(ctx, g.cells.All)
}

func (g *Gateway) getCell(ctx context.Context, name string) (*cellgatev1.Cell, error) {
	c := g.cells.Named(name)
	if c == nil {
		return nil, fault.New(fault.NotFound, "%s", g.cells.NoCell(name))
	}
	row := g.showCells(ctx, []*cellclient.Cell{c})[0]
	if s := c.LastSummary(); s != nil {
		row.Traits = mergeSorted(s.GetTraits(), s.GetChildTraits())
		for i, uuid := range s.GetAggregates() {
			a := &cellgatev1.CellAggregate{Uuid: uuid}
			if i < len(s.GetAggregateNames()) { // a cell of an older release does not name them
				a.Name = s.GetAggregateNames()[i]
			}
			row.Aggregates = append(row.Aggregates, a)
		}
	}
	return row, nil
}

func (g *Gateway) showCells(ctx context.Context, cells []*cellclient.Cell) []*cellgatev1.Cell {
	var out []*cellgatev1.Cell
	for _, r := range cellclient.AskAll(ctx, cells, func(ctx context.Context, c *cellclient.Cell) (*cellv1.GetSummaryResponse, error) {
		return g.cells.ReadSummary(ctx, c)
	}) {
		summary, answeredAt := r.Got, (*timestamppb.Timestamp)(nil)
		if last := r.Cell.LastSummaryAt(); last != nil && (r.Err != nil || summary.GetLoading()) {
			summary, answeredAt = last.GetSummaryResponse, timestamppb.New(last.At)
		}
		row := &cellgatev1.Cell{}
		if t := summary.GetTotals(); t != nil {
			row = proto.CloneOf(t)
			row.Reason = r.Got.GetTotals().GetReason()
		}
		row.AnsweredAt = answeredAt
		row.AvailabilityZones = g.zonesOf(summary)
		row.Cell, row.CellUuid = r.Cell.Name(), r.Cell.UUID()
		row.Enabled, row.Replicas = !r.Cell.Disabled() && !g.gates[r.Cell].DisabledByNova(), r.Cell.Addresses()
		row.Available = r.Err == nil && row.GetReason() == ""
		row.ReplicaStates = r.Cell.ReplicaStates()
		switch {
		case r.Err != nil:
			row.Reason = cellclient.ReasonOf(r.Err)
		case r.Got.GetLoading():
			row.Reason = "it loads its table, and answers slower until it has"
			if answeredAt == nil {
				row.Reason += "; what it holds is not known yet"
			}
		}
		g.showGate(row, r.Cell)
		out = append(out, row)
	}
	return out
}

func mergeSorted(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// zonesOf gives a cell's zones by the names that selections use, sorted. Hosts in no zone
// count as in the default one.
func (g *Gateway) zonesOf(s *cellv1.GetSummaryResponse) []string {
	zones := slices.Clone(s.GetAvailabilityZones())
	if s.GetHasUnzonedHosts() {
		zones = append(zones, g.cfg.DefaultAvailabilityZone)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}
