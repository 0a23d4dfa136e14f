package schedule

import "math/bits"

// IoOpsFilter and NumInstancesFilter keep hosts below a limit of tasks or of instances (filters/io_ops_filter.py,
// num_instances_filter.py). The filters with the prefix Aggregate use the least limit of the host's aggregates, if
// there is one.
const (
	IoOpsFilter                 = "IoOpsFilter"
	AggregateIoOpsFilter        = "AggregateIoOpsFilter"
	NumInstancesFilter          = "NumInstancesFilter"
	AggregateNumInstancesFilter = "AggregateNumInstancesFilter"
)

const (
	maxIOOps     = "max_io_ops_per_host"
	maxInstances = "max_instances_per_host"
)

func (s *scan) below(filter string, column int, limit int64) {
	s.check(filter, "", func(_ int, c *chunk, m uint64) uint64 { return c.below(column, limit, m) })
}

func (s *scan) belowInSet(filter, key string, column int, otherwise int64) {
	if s.t.names.metadata.id(key) < 0 {
		s.below(filter, column, otherwise)
		return
	}
	limits := make([]int64, s.t.names.sets.n)
	asked := make([]bool, len(limits))
	s.check(filter, "", func(_ int, c *chunk, m uint64) (kept uint64) {
		for i := range c.sets.all() {
			p := &c.sets.v[i]
			id := p.of.id
			if p.mask&m == 0 {
				continue
			}
			if !asked[id] {
				limit, ok := p.of.leastInt(key, otherwise)
				limits[id], asked[id] = limit, true
				if !ok {
					s.warn(key, p.of)
				}
			}
			kept |= c.below(column, limits[id], p.mask&m)
		}
		return kept
	})
}

// below keeps the hosts of m whose count is less than the limit. The columns hold no counts below 0.
func (c *chunk) below(column int, limit int64, m uint64) uint64 {
	col, most := c.columns[column], float64(limit)
	if col.hi < most {
		return m
	}
	if limit <= 0 {
		return c.belowZero(column, limit, m)
	}
	for left := m; left != 0; left &= left - 1 {
		if i := bits.TrailingZeros64(left); col.v[i] >= most {
			m &^= 1 << i
		}
	}
	return m
}

// belowZero is below for limits of 0 or less, which only negative counts can be below.
func (c *chunk) belowZero(column int, limit int64, m uint64) uint64 {
	for left := m; left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(left)
		n := c.rows.v[i].view.NumIOOps
		if column == instancesColumn {
			n = c.rows.v[i].view.NumInstances
		}
		if n >= limit {
			m &^= 1 << i
		}
	}
	return m
}
