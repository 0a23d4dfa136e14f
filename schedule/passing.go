package schedule

import "math/bits"

// Passing gives each host that passes a query, in the order of the table: those that
// Proposal.Passed of Propose counts. It fails as Propose does.
func (t *Table) Passing(q *Query, each func(ID)) error {
	if err := q.check(); err != nil {
		return err
	}
	before := t
	t = t.taken(q)
	s, err := t.compile(q, before)
	if err != nil {
		return err
	}
	for i, c := range t.chunks {
		if q.stopped(i) {
			return ErrStopped
		}
		m := s.filter(i, c)
		if s.spent > ExpressionBudget {
			return ErrCostly
		}
		for ; m != 0; m &= m - 1 {
			each(c.rows.v[bits.TrailingZeros64(m)].host.UUID)
		}
	}
	return nil
}
