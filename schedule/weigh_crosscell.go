package schedule

// crossCell weighs hosts of the destination's cell 1 and others -1, if the move may leave the cell; else all weigh 0
// (weights/cross_cell.py).
func (s *scan) crossCell() func(int, *chunk) *column {
	d := s.q.Request.Destination
	if d == nil || d.Cell == "" || !d.AllowCrossCellMove {
		zero := flat(0)
		return func(int, *chunk) *column { return zero }
	}
	id := s.t.names.cells.id(d.Cell)
	same, other, mixed := flat(1), flat(-1), flat(0)
	return func(_ int, c *chunk) *column {
		switch m := has(c.labels.cells, id); m {
		case c.valid:
			return same
		case 0:
			return other
		default:
			for i := range mixed.v {
				mixed.v[i] = float64(2*int(m>>i&1) - 1)
			}
			mixed.lo, mixed.hi = -1, 1
			return mixed
		}
	}
}
