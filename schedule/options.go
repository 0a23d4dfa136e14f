package schedule

import "cellgate/internal/python"

// Options are the Nova options that filters and weighers read (nova/conf/scheduler.py): [filter_scheduler], and
// [metrics] for Metrics…. Multipliers are not here but with the weighers.
type Options struct {
	MaxIOOpsPerHost     int64
	MaxInstancesPerHost int64
	// IsolatedHosts are service hosts, IsolatedImages image ids. With RestrictIsolated an isolated host accepts only
	// isolated images.
	IsolatedHosts    []string
	IsolatedImages   []string
	RestrictIsolated bool
	// DefaultArchitecture of images that name none; empty for none.
	DefaultArchitecture string
	// Aggregate metadata restricts images only by keys that begin with the namespace and the separator; by every key
	// if the namespace is empty.
	ImageIsolationNamespace string
	ImageIsolationSeparator string
	MetricsSetting          []Ratio
	// MetricsRequired: in Nova, a host without a weighed metric is an error. Here its metrics weigh
	// MetricsUnavailable, and it is counted; see StrictNova.
	MetricsRequired    bool
	MetricsUnavailable float64
	// ImagePropertySetting are the factors of weighed image properties; properties that are not in it do not count.
	// If it is empty, all count with the factor 1.
	ImagePropertySetting []Ratio
	// SubsetSize: the seed picks one of the best SubsetSize hosts. Below 1 means 1.
	SubsetSize int
	// ExactTenantKey: only the metadata key filter_tenant_id isolates tenants, as in older releases; else every key
	// with that prefix does.
	ExactTenantKey bool
	// StrictNova: what raises an exception in Nova fails the request here too.
	StrictNova bool
}

// Ratio is a factor by name.
type Ratio struct {
	Name  string
	Ratio float64
}

// DefaultOptions are Nova's defaults.
func DefaultOptions() *Options {
	return &Options{
		MaxIOOpsPerHost: 8, MaxInstancesPerHost: 50, RestrictIsolated: true,
		ImageIsolationSeparator: ".", MetricsRequired: true, MetricsUnavailable: -10000, SubsetSize: 1,
	}
}

var defaultOptions = DefaultOptions()

func (r *Rules) options() *Options {
	if r.Options == nil {
		return defaultOptions
	}
	return r.Options
}

// SubsetSize is from how many best hosts the seed picks one, at least 1: Options.SubsetSize.
func (r *Rules) SubsetSize() int { return max(1, r.options().SubsetSize) }

// ParseRatio parses NAME=FACTOR of a list option (nova/scheduler/utils.py, parse_options); false if it is invalid.
// Nova ignores such elements.
func ParseRatio(s string) (Ratio, bool) {
	for i := range len(s) {
		if s[i] == '=' {
			f, ok := python.Float(s[i+1:])
			return Ratio{Name: s[:i], Ratio: f}, ok && i > 0
		}
	}
	return Ratio{}, false
}
