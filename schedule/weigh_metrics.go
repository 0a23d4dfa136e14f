package schedule

import "math/bits"

// MetricsWeigher weighs a host by the sum of its metrics times the ratios of the
// option weight_setting (weights/metrics.py).
const MetricsWeigher = "MetricsWeigher"

func (s *scan) metrics(w *weigher) func(int, *chunk) *column {
	col := flat(0)
	if len(s.options.MetricsSetting) == 0 {
		return func(int, *chunk) *column { return col }
	}
	at := make([]int, len(s.options.MetricsSetting))
	for i, set := range s.options.MetricsSetting {
		at[i] = metricIndex(set.Name)
	}
	// A pointer into s.weighers stays true: the slice has its size already.
	return func(_ int, c *chunk) *column {
		for m := c.valid; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			col.v[i] = s.measured(c.rows.v[i], w, at)
		}
		col.span(c.valid)
		return col
	}
}

// multiplierOf is a weigher's multiplier for a host.
func (s *scan) multiplierOf(w *weigher, r *row) float64 {
	if s.varied {
		return s.classes[s.classOf(r.set)].multipliers[w.index]
	}
	return w.multiplier
}

// measured is a host's raw weight. A host that lacks a metric which counts weighs
// as the option for it says, whether metrics are required or not: see
// unmeasured.
func (s *scan) measured(r *row, w *weigher, at []int) float64 {
	multiplier := s.multiplierOf(w, r)
	sum := 0.0
	for i, set := range s.options.MetricsSetting {
		if m := r.metric(at[i]); m != nil && m.hasValue {
			sum += float64(m.value * set.Ratio)
		} else if set.Ratio*multiplier != 0 {
			return s.options.MetricsUnavailable
		}
	}
	return sum
}

// unmeasured is what Nova raises for a host: for the first metric that it lacks,
// when all are required, or that has no value of its own.
func (s *scan) unmeasured(w *weigher, r *row) *pyError {
	multiplier := s.multiplierOf(w, r)
	for _, set := range s.options.MetricsSetting {
		switch m := r.metric(metricIndex(set.Name)); {
		case m == nil && !s.options.MetricsRequired && set.Ratio*multiplier != 0:
			return nil // It weighs as unavailable; the rest is not looked at.
		case m == nil && s.options.MetricsRequired:
			return &pyError{
				"ComputeHostMetricNotFound",
				"Metric " + set.Name + " could not be found on the compute host node " +
					r.host.ServiceHost + "." + r.host.NodeName + ".",
			}
		case m != nil && !m.hasValue:
			return &pyError{"NotImplementedError", "Cannot load 'value' in the base class"}
		}
	}
	return nil
}

// metric gives one of a host's metrics; nil when it does not have it.
func (r *row) metric(at int) *metric {
	f := r.host.Facts
	if at < 0 || f == nil || f.Unfilled || !f.metrics[at].there {
		return nil
	}
	return &f.metrics[at]
}
