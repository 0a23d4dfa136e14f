package schedule

import "cellgate/internal/python"

// MetricsFilter keeps hosts that have every weighed metric (filters/metrics_filter.py).
const MetricsFilter = "MetricsFilter"

func (s *scan) metricsFilter() {
	setting := s.options.MetricsSetting
	s.perHost(MetricsFilter, func(r *row) (bool, *python.Exception) {
		f := r.host.Facts
		if f != nil && f.Unfilled {
			return false, python.NewException("TypeError", "'NoneType' object is not iterable")
		}
		for i := range setting {
			if m := r.metric(metricIndex(setting[i].Name)); m == nil {
				return false, nil
			}
		}
		return true, nil
	})
}
