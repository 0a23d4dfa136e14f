package telemetry

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Build identifies the build of a process.
type Build struct{ Version, Revision string }

// Process is the telemetry of one process: its metrics, from which the handles of its parts are made,
// and its traces. The handles of a nil Process do nothing.
type Process struct {
	registry *prometheus.Registry
	counters map[string]*prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	histos   map[string]prometheus.ObserverVec
	readings *readings
	traces   *tracing
	callers  callers
	// own has the series of the process as a whole.
	own *part
}

// New makes the telemetry of a process. Spans are recorded from now on, and sent once Run runs. An
// error means that the configuration is wrong.
func New(traces Traces, build Build, log *slog.Logger) (*Process, error) {
	p := &Process{
		registry: prometheus.NewRegistry(),
		counters: map[string]*prometheus.CounterVec{},
		gauges:   map[string]*prometheus.GaugeVec{},
		histos:   map[string]prometheus.ObserverVec{},
		readings: &readings{descs: map[string]*prometheus.Desc{}},
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, m := range Metrics() {
		p.register(m)
	}
	p.readings.add(p.callers.emit)
	p.registry.MustRegister(p.readings)
	p.own = p.newPart()
	p.own.set(buildInfo, 1, build.Version, build.Revision)
	var err error
	p.traces, err = newTracing(traces, build, log)
	return p, err
}

func (p *Process) register(m Metric) {
	var labels []string
	for _, l := range m.Labels {
		labels = append(labels, l.Name)
	}
	with := promauto.With(p.registry)
	switch m.Kind {
	case Counter:
		p.counters[m.Name] = with.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, labels)
	case Gauge:
		p.gauges[m.Name] = with.NewGaugeVec(prometheus.GaugeOpts{Name: m.Name, Help: m.Help}, labels)
	case Histogram:
		p.histos[m.Name] = with.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: m.Buckets}, labels)
	case Reading, Tally:
		p.readings.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, labels, nil)
	}
}

// Gatherer returns the registry of all metrics.
func (p *Process) Gatherer() prometheus.Gatherer { return p.registry }

// scrapesAtOnce bounds the concurrent scrapes; more are answered 503.
const scrapesAtOnce = 3

// Handler serves /metrics; nil for a nil Process.
func (p *Process) Handler() http.Handler {
	if p == nil {
		return nil
	}
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: scrapesAtOnce, Timeout: 10 * time.Second, ErrorHandling: promhttp.ContinueOnError,
	})
}

// Emit reports the value of a Reading or a Tally; labels are in the order of its Labels.
type Emit func(m *Metric, value float64, labels ...string)

// readings are gauges and counters whose values are read at each scrape.
type readings struct {
	descs map[string]*prometheus.Desc
	mu    sync.Mutex
	read  []func(Emit)
}

func (r *readings) add(read func(Emit)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = append(r.read, read)
}

// Describe implements prometheus.Collector.
func (r *readings) Describe(to chan<- *prometheus.Desc) {
	for _, d := range r.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (r *readings) Collect(to chan<- prometheus.Metric) {
	r.mu.Lock()
	all := r.read[:len(r.read):len(r.read)]
	r.mu.Unlock()
	for _, read := range all {
		read(func(m *Metric, value float64, labels ...string) {
			kind := prometheus.GaugeValue
			if m.Kind == Tally {
				kind = prometheus.CounterValue
			}
			to <- prometheus.MustNewConstMetric(r.descs[m.Name], kind, value, labels...)
		})
	}
}

// inList returns value if the label's list has it, else "other".
func inList(l Label, value string) string {
	if slices.Contains(l.Values, value) {
		return value
	}
	return other
}

// Parse parses the text that a process serves at /metrics: the metrics by name.
func Parse(text io.Reader) (map[string]*dto.MetricFamily, error) {
	p := expfmt.NewTextParser(model.UTF8Validation)
	return p.TextToMetricFamilies(text)
}
