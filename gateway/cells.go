package gateway

import (
	"context"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
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
	for _, r := range askAll(ctx, cells, func(ctx context.Context, c *cell) (*cellgatev1.Cell, error) {
		s, err := g.readSummary(ctx, c, g.cfg.ClaimBudget)
		return s.GetTotals(), err
	}) {
		row := &cellgatev1.Cell{}
		if r.got != nil {
			row = proto.CloneOf(r.got)
		}
		row.Cell, row.CellUuid = r.cell.cfg.Name, r.cell.uuid()
		row.Enabled, row.Replicas = !r.cell.cfg.Disabled, r.cell.cfg.Replicas
		row.Available, row.Reason = r.err == nil, ""
		if r.err != nil {
			row.Reason = reasonOf(r.err)
		}
		out = append(out, row)
	}
	return out
}
