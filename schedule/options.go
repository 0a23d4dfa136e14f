package schedule

import "cellgate/internal/python"

// Options are Nova's options that filters and weighers read, by their meaning
// there (nova/conf/scheduler.py): [filter_scheduler], but for Metrics… which are
// [metrics]. The multipliers stand with the weighers.
type Options struct {
	MaxIOOpsPerHost     int64
	MaxInstancesPerHost int64
	// IsolatedHosts are service hosts, IsolatedImages image ids. With
	// RestrictIsolated an isolated host takes isolated images only.
	IsolatedHosts    []string
	IsolatedImages   []string
	RestrictIsolated bool
	// DefaultArchitecture of images that name none; empty for none.
	DefaultArchitecture string
	// Aggregate metadata restricts images only under keys that begin with the
	// namespace and the separator; every key does when the namespace is empty.
	ImageIsolationNamespace string
	ImageIsolationSeparator string
	MetricsSetting          []Ratio
	// MetricsRequired: a host without a metric that is weighed is an error in
	// Nova. Here it weighs MetricsUnavailable and is counted; see StrictNova.
	MetricsRequired    bool
	MetricsUnavailable float64
	// ImagePropertySetting is the factor of image properties that are weighed: no
	// others are; without any, all are, with the factor 1.
	ImagePropertySetting []Ratio
	// SubsetSize: the pick is one of so many best, by the seed. Below 1 means 1.
	SubsetSize int
	// ExactTenantKey: tenants are isolated by the metadata key filter_tenant_id
	// alone, as in older releases; else by every key that begins so.
	ExactTenantKey bool
	// StrictNova: what raises an exception in Nova fails the request here, too.
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

// ParseRatio reads a NAME=FACTOR of a list option (nova/scheduler/utils.py,
// parse_options); false when it is none, which Nova then leaves out.
func ParseRatio(s string) (Ratio, bool) {
	for i := range len(s) {
		if s[i] == '=' {
			f, ok := python.Float(s[i+1:])
			return Ratio{Name: s[:i], Ratio: f}, ok && i > 0
		}
	}
	return Ratio{}, false
}
