package gateway

import (
	"context"
	"slices"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// listCells asks every configured cell how it is. One that does not answer is
// listed with the reason.
func (g *Gateway) listCells(ctx context.Context) []*cellgatev1.Cell {
	return g.showCells(ctx, g.cells)
}

func (g *Gateway) getCell(ctx context.Context, name string) (*cellgatev1.Cell, error) {
	c := g.cellNamed(name)
	if c == nil {
		return nil, fault.New(fault.NotFound, "there is no cell %q", name)
	}
	return g.showCells(ctx, []*cell{c})[0], nil
}

func (g *Gateway) showCells(ctx context.Context, cells []*cell) []*cellgatev1.Cell {
	var out []*cellgatev1.Cell
	for _, r := range askAll(ctx, cells, func(ctx context.Context, c *cell) (*cellv1.GetSummaryResponse, error) {
		return g.readSummary(ctx, c)
	}) {
		row := &cellgatev1.Cell{}
		if t := r.got.GetTotals(); t != nil {
			row = proto.CloneOf(t)
		}
		row.AvailabilityZones = g.zonesOf(r.got)
		row.Cell, row.CellUuid = r.cell.cfg.Name, r.cell.uuid()
		row.Enabled, row.Replicas = !r.cell.cfg.Disabled && !r.cell.gate.disabledByNova(), r.cell.cfg.Replicas
		row.Available = r.err == nil && row.GetReason() == ""
		row.ReplicaStates = r.cell.replicaStates()
		switch {
		case r.err != nil:
			row.Reason = reasonOf(r.err)
		case r.got.GetLoading():
			row.Reason = "it loads its table, and answers slower until it has; what it holds is not known yet"
		}
		g.showGate(row, r.cell)
		out = append(out, row)
	}
	return out
}

// replicaStates shows the cell's replicas as their breakers see them.
func (c *cell) replicaStates() []*cellgatev1.ReplicaState {
	var out []*cellgatev1.ReplicaState
	for _, r := range c.replicas {
		v := r.breaker.view()
		s := &cellgatev1.ReplicaState{Address: r.addr, Breaker: shownStates[v.state], Since: timestamppb.New(v.since), Loading: r.loading.Load()}
		switch {
		case r.strange() != nil:
			s.LastError = reasonOf(r.strange())
		case v.err != nil:
			s.LastError = reasonOf(v.err)
		}
		out = append(out, s)
	}
	return out
}

var shownStates = map[gobreaker.State]cellgatev1.BreakerState{
	gobreaker.StateClosed:   cellgatev1.BreakerState_CLOSED,
	gobreaker.StateOpen:     cellgatev1.BreakerState_OPEN,
	gobreaker.StateHalfOpen: cellgatev1.BreakerState_HALF_OPEN,
}

// zonesOf gives a cell's zones as selections call them, sorted: hosts that are in
// none are in the default one.
func (g *Gateway) zonesOf(s *cellv1.GetSummaryResponse) []string {
	zones := slices.Clone(s.GetAvailabilityZones())
	if s.GetHasUnzonedHosts() {
		zones = append(zones, g.cfg.DefaultAvailabilityZone)
	}
	slices.Sort(zones)
	return slices.Compact(zones)
}
