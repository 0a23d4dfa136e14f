package novadb

import (
	"context"
	"database/sql"
)

// RatioUse is what becomes of the rows that have no allocation ratio of a resource, NULL
// or 0.0.
type RatioUse struct {
	Resource string
	// Unset rows get Becomes, of the options.
	Unset   int
	Becomes float64
	// Low rows have a ratio of less than Unlimited, their own or not.
	Low int
}

// Unlimited is the least ratio with which a resource counts as not limited: Nova's
// release notes say 9999.0.
const Unlimited = 9999

// Ratios says of each resource how many of the hosts have no ratio.
func (x *Snapshot) Ratios() []RatioUse {
	o := x.of.options
	all := []RatioUse{{Resource: "cpu", Becomes: o.CPUAllocationRatio}, {Resource: "ram", Becomes: o.RAMAllocationRatio}, {Resource: "disk", Becomes: o.DiskAllocationRatio}}
	for i := range x.nodes {
		row := &x.nodes[i].row
		for k, r := range []sql.NullFloat64{row.cpuRatio, row.ramRatio, row.diskRatio} {
			u := &all[k]
			if !r.Valid || r.Float64 == 0 {
				u.Unset++
				r.Float64 = u.Becomes
			}
			if r.Float64 < Unlimited {
				u.Low++
			}
		}
	}
	return all
}

// DeletedServices counts the soft-deleted nova-compute rows whose version is below one.
// Nova's own gate counted them (bug 1668310); no snapshot has them.
func (r *Reader) DeletedServices(ctx context.Context, below int64) (n int, err error) {
	s, err := r.cell.openSession(ctx)
	if err != nil {
		return 0, err
	}
	defer s.close(ctx)
	_, err = s.each(ctx, `SELECT count(*) FROM services WHERE deleted <> 0 AND "binary" = 'nova-compute' AND coalesce(version, 0) < ?`, []any{below},
		func(rows *sql.Rows) error { return rows.Scan(&n) })
	return n, err
}
