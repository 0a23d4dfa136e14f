package schedule

import "math/bits"

// measured are a chunk's metrics in columns; nil for a metric that none of its hosts has a value of.
type measured struct {
	owner uint64
	// there are the hosts that have a metric, valued those whose metric has a value.
	there, valued [metricCount]uint64
	v             [metricCount]*[chunkSize]float64
}

// noMetrics is shared by chunks whose hosts report no metrics.
var noMetrics = &measured{}

// setMetrics writes one slot's metrics. The chunk must be owned.
func (c *chunk) setMetrics(i number, f *Facts) {
	bit := uint64(1) << i
	none := f == nil || f.Unfilled
	if c.metrics == noMetrics && (none || f.metricsThere() == 0) {
		return
	}
	if c.metrics.owner != c.owner || c.metrics == noMetrics {
		n := *c.metrics
		n.owner = c.owner
		for at, v := range n.v {
			if v != nil {
				own := *v
				n.v[at] = &own
			}
		}
		c.metrics = &n
	}
	m := c.metrics
	for at := range m.there {
		m.there[at] &^= bit
		m.valued[at] &^= bit
		if none || !f.metrics[at].there {
			continue
		}
		m.there[at] |= bit
		if f.metrics[at].hasValue {
			m.valued[at] |= bit
			if m.v[at] == nil {
				m.v[at] = new([chunkSize]float64)
			}
			m.v[at][i] = f.metrics[at].value
		}
	}
}

// add adds ratio times a metric to the sums of the hosts in has, which must have a value.
func (m *measured) add(sum *[chunkSize]float64, at int, ratio float64, has uint64) {
	v := m.v[at]
	if has == ^uint64(0) {
		for i := range sum {
			sum[i] += float64(v[i] * ratio)
		}
		return
	}
	for ; has != 0; has &= has - 1 {
		i := bits.TrailingZeros64(has)
		sum[i] += float64(v[i] * ratio)
	}
}
