package novadb

import "database/sql"

// RatioUse counts the rows that have no allocation ratio of a resource: NULL or 0.0.
type RatioUse struct {
	Resource string
	// Unset is the number of such rows, Becomes the ratio that they get from the options.
	Unset   int
	Becomes float64
}

// Ratios gives, for each resource, how many compute nodes have no ratio.
func (x *Snapshot) Ratios() []RatioUse {
	o := x.of.options
	all := []RatioUse{{Resource: "cpu", Becomes: o.CPUAllocationRatio}, {Resource: "ram", Becomes: o.RAMAllocationRatio}, {Resource: "disk", Becomes: o.DiskAllocationRatio}}
	for i := range x.nodes {
		row := &x.nodes[i].row
		for k, r := range []sql.NullFloat64{row.cpuRatio, row.ramRatio, row.diskRatio} {
			u := &all[k]
			if !r.Valid || r.Float64 == 0 {
				u.Unset++
			}
		}
	}
	return all
}
