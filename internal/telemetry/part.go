package telemetry

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// part records the series of one part of a process. A nil part records nothing.
type part struct {
	p *Process
	// labels are the first label values of each of its series.
	labels []string
	// made has the series used so far. Adding one replaces the map. Labels come from closed lists, so
	// there are few series, and readers need no lock.
	made atomic.Pointer[map[seriesKey]any]
	mu   sync.Mutex
}

// maxLabels is how many labels a metric may have in addition to the part's own.
const maxLabels = 3

type seriesKey struct {
	metric *Metric
	labels [maxLabels]string
}

// newPart makes a part of the process; nil for a nil Process.
func (p *Process) newPart(labels ...string) *part {
	if p == nil {
		return nil
	}
	return &part{p: p, labels: labels}
}

// below makes a part with further labels; nil for a nil part.
func (s *part) below(labels ...string) *part {
	if s == nil {
		return nil
	}
	return s.p.newPart(s.with(labels)...)
}

func (s *part) with(labels []string) []string {
	return append(s.labels[:len(s.labels):len(s.labels)], labels...)
}

// series returns a metric's series with these labels after the part's own.
func series[S any](s *part, m *Metric, labels []string, vector func(labels ...string) S) S {
	key := seriesKey{metric: m}
	copy(key.labels[:], labels)
	if made := s.made.Load(); made != nil {
		if one, ok := (*made)[key]; ok {
			return one.(S)
		}
	}
	one := vector(s.with(labels)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	more := map[seriesKey]any{key: one}
	if made := s.made.Load(); made != nil {
		maps.Copy(more, *made)
	}
	s.made.Store(&more)
	return one
}

func (s *part) counter(m *Metric, labels ...string) prometheus.Counter {
	return series(s, m, labels, s.p.counters[m.Name].WithLabelValues)
}

func (s *part) gauge(m *Metric, labels ...string) prometheus.Gauge {
	return series(s, m, labels, s.p.gauges[m.Name].WithLabelValues)
}

func (s *part) histogram(m *Metric, labels ...string) prometheus.Observer {
	return series(s, m, labels, s.p.histos[m.Name].WithLabelValues)
}

// add adds n to a counter.
func (s *part) add(m *Metric, n int, labels ...string) {
	if s != nil {
		s.counter(m, labels...).Add(float64(n))
	}
}

// set gives a gauge its value.
func (s *part) set(m *Metric, value float64, labels ...string) {
	if s != nil {
		s.gauge(m, labels...).Set(value)
	}
}

// observe adds a value to a histogram.
func (s *part) observe(m *Metric, value float64, labels ...string) {
	if s != nil {
		s.histogram(m, labels...).Observe(value)
	}
}

// watch registers values to be read at each scrape.
func (s *part) watch(read func(emit Emit)) {
	if s != nil {
		s.p.readings.add(func(emit Emit) {
			read(func(m *Metric, value float64, labels ...string) { emit(m, value, s.with(labels)...) })
		})
	}
}

// span starts a span below ctx's.
func (s *part) span(ctx context.Context, name string) (context.Context, Span) {
	if s == nil {
		return ctx, Span{}
	}
	return s.p.traces.start(ctx, name)
}

// show creates series before anything has happened: one for each combination of the labels' values.
func (s *part) show(metrics ...*Metric) {
	if s == nil {
		return
	}
	for _, m := range metrics {
		all := [][]string{nil}
		for _, l := range m.Labels[len(s.labels):] {
			var more [][]string
			for _, labels := range all {
				for _, v := range l.Values {
					more = append(more, append(labels[:len(labels):len(labels)], v))
				}
			}
			all = more
		}
		for _, labels := range all {
			switch m.Kind {
			case Counter:
				s.counter(m, labels...)
			case Gauge:
				s.gauge(m, labels...)
			case Histogram:
				s.histogram(m, labels...)
			}
		}
	}
}

// either is one of two label values.
func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}
