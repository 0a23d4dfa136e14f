package capacity

import (
	"context"
	"sync"

	"cellgate/gateway/selection"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// each counts each shape alone. Whether an instance fits depends on its host alone, so every cell counts its own.
// Only with hard affinity one host is chosen over all cells, which mix does.
func (q *question) each(ctx context.Context, most int) (shapes []*cellgatev1.ShapeCapacity, exact bool, err error) {
	cells := q.answering()
	filled := make([][]*cellv1.TrialFilled, len(cells))
	var all sync.WaitGroup
	for i, c := range cells {
		all.Go(func() { filled[i], c.err = q.fill(ctx, c, most) })
	}
	all.Wait()
	for _, c := range cells {
		if c.err != nil && fault.KindOf(c.err) == fault.InvalidRequest {
			return nil, false, c.err
		}
	}
	if err := q.checkAnswered(); err != nil {
		return nil, false, err
	}
	exact = true
	for i, s := range q.shapes {
		if s.ranked() {
			one, isExact, err := q.mix(ctx, []*shape{s}, most)
			if err != nil {
				return nil, false, err
			}
			shapes, exact = append(shapes, one[0]), exact && isExact
			continue
		}
		out := &cellgatev1.ShapeCapacity{Name: s.name, End: cellgatev1.CapacityEnd_FULL}
		for k, c := range cells {
			if c.err != nil {
				continue
			}
			f := filled[k][i]
			out.Cells = append(out.Cells, &cellgatev1.CellCapacity{Cell: c.Name(), Instances: f.GetInstances(), HostsUsed: f.GetHostsUsed(), Limited: f.GetLimited()})
			out.Instances += f.GetInstances()
			out.Hosts += f.GetHosts()
			if f.GetLimited() {
				out.End = cellgatev1.CapacityEnd_LIMIT
			}
			for _, r := range f.GetRejects() {
				out.Rejects = selection.AddReject(out.Rejects, r)
			}
		}
		if out.GetEnd() != cellgatev1.CapacityEnd_FULL {
			out.Hosts, out.Rejects = 0, nil
		}
		shapes = append(shapes, out)
	}
	return shapes, exact, nil
}

// ranked reports whether the order of hosts decides how many instances fit.
func (s *shape) ranked() bool {
	return s.Request.Group != nil && s.Request.Group.Policy == schedule.Affinity
}

// fill counts how many instances of each shape fit in one cell, except ranked shapes.
func (q *question) fill(ctx context.Context, c *trialCell, most int) ([]*cellv1.TrialFilled, error) {
	out := make([]*cellv1.TrialFilled, len(q.shapes))
	for i, s := range q.shapes {
		if s.ranked() {
			continue
		}
		var err error
		if out[i], err = c.trial.Fill(ctx, &cellv1.FillTrial{Placement: s.placement, Most: int32(most)}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
