package schedule

import (
	"math/bits"

	"cellgate/internal/python"
)

// MetricsWeigher weighs a host by the sum of its metrics times their ratios in the option weight_setting
// (weights/metrics.py).
const MetricsWeigher = "MetricsWeigher"

func (s *scan) metrics(w *weigher) func(int, *chunk) *column {
	col := flat(0)
	if len(s.options.MetricsSetting) == 0 {
		return func(int, *chunk) *column { return col }
	}
	at := s.metricsAt()
	// The pointer into s.weighers stays valid: the slice already has its final size.
	return func(_ int, c *chunk) *column {
		clear(col.v[:])
		unavailable := uint64(0)
		for i, set := range s.options.MetricsSetting {
			has := uint64(0)
			if at[i] >= 0 {
				has = c.metrics.valued[at[i]]
			}
			if has != 0 {
				c.metrics.add(&col.v, at[i], set.Ratio, has)
			}
			unavailable |= s.countsFor(w, set.Ratio, c, c.valid&^has)
		}
		for m := unavailable; m != 0; m &= m - 1 {
			col.v[bits.TrailingZeros64(m)] = s.options.MetricsUnavailable
		}
		col.span(c.valid)
		return col
	}
}

// metricsAt gives the indexes of the weighed metrics; below 0 for unknown ones.
func (s *scan) metricsAt() []int {
	at := make([]int, len(s.options.MetricsSetting))
	for i, set := range s.options.MetricsSetting {
		at[i] = metricIndex(set.Name)
	}
	return at
}

// countsFor gives the hosts of m that weigh MetricsUnavailable if they lack the metric, whether metrics are required
// or not: those for which neither the metric's ratio nor the weigher's multiplier is 0. See unmeasured.
func (s *scan) countsFor(w *weigher, ratio float64, c *chunk, m uint64) (counts uint64) {
	if m == 0 || !s.varied {
		if ratio*w.multiplier != 0 {
			return m
		}
		return 0
	}
	for _, p := range c.overrides.all() {
		if p.mask&m != 0 && ratio*s.classes[s.classOf(p.of)].multipliers[w.index] != 0 {
			counts |= p.mask & m
		}
	}
	return counts
}

// multiplierOf is a weigher's multiplier for a host.
func (s *scan) multiplierOf(w *weigher, r *row) float64 {
	if s.varied {
		return s.classes[s.classOf(r.set.own)].multipliers[w.index]
	}
	return w.multiplier
}

// mayLack gives the hosts of m for which unmeasured may give an exception.
func (s *scan) mayLack(c *chunk, m uint64) (may uint64) {
	for _, set := range s.options.MetricsSetting {
		at := metricIndex(set.Name)
		if at < 0 {
			if s.options.MetricsRequired {
				return m
			}
			continue
		}
		may |= c.metrics.there[at] &^ c.metrics.valued[at]
		if s.options.MetricsRequired {
			may |= ^c.metrics.there[at]
		}
	}
	return may & m
}

// unmeasured is the exception that Nova raises for a host. It is about the first metric that the host lacks, if
// metrics are required, or that has no value of its own.
func (s *scan) unmeasured(w *weigher, r *row) *python.Exception {
	multiplier := s.multiplierOf(w, r)
	for _, set := range s.options.MetricsSetting {
		switch m := r.metric(metricIndex(set.Name)); {
		case m == nil && !s.options.MetricsRequired && set.Ratio*multiplier != 0:
			return nil // It weighs as unavailable; Nova skips the remaining metrics.
		case m == nil && s.options.MetricsRequired:
			return python.NewException(
				"ComputeHostMetricNotFound",
				"Metric "+set.Name+" could not be found on the compute host node "+
					r.host.ServiceHost+"."+r.host.NodeName+".",
			)
		case m != nil && !m.hasValue:
			return python.NewException("NotImplementedError", "Cannot load 'value' in the base class")
		}
	}
	return nil
}

// metric gives one of a host's metrics; nil if the host does not have it.
func (r *row) metric(at int) *metric {
	f := r.host.Facts
	if at < 0 || f == nil || f.Unfilled || !f.metrics[at].there {
		return nil
	}
	return &f.metrics[at]
}
