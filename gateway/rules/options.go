package rules

import (
	"strings"

	"cellgate/internal/limits"
	"cellgate/internal/novarelease"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// Options are Nova's options of filters and weighers, with Nova's meanings and
// defaults (schedule.Options).
type Options struct {
	HostSubsetSize          int
	MaxIOOpsPerHost         int
	MaxInstancesPerHost     int
	IsolatedHosts           []string
	IsolatedImages          []string
	RestrictIsolated        bool
	DefaultArchitecture     string
	ImageIsolationNamespace string
	ImageIsolationSeparator string
	// ImagePropertySetting and MetricsSetting are lists of name=factor. As in Nova, an
	// invalid entry is ignored.
	ImagePropertySetting []string
	MetricsSetting       []string
	MetricsRequired      bool
	MetricsUnavailable   float64
	// Options of request filters: see nova.Options.
	LimitTenants            bool
	TenantsRequireAggregate bool
	ImageTypeSupport        bool
	IsolateAggregates       bool
	ImageMetadata           bool
	RoutedNetworks          bool
	PCIInPlacement          bool
	NoPCPUFallback          bool
	ExactTenantKey          bool
	Strict                  bool
	// Release is the name of the Nova release that is replaced; "" means the newest
	// (internal/novarelease).
	Release string
}

// release gives the named release; 0 for an unknown name, which Check refuses at the start.
func (o *Options) release() novarelease.Release {
	if o == nil {
		return 0
	}
	r, err := novarelease.Parse(o.Release)
	if err != nil {
		return 0
	}
	return r
}

// core gives the options for package schedule; nil for nil.
func (o *Options) core() *schedule.Options {
	if o == nil {
		return nil
	}
	return &schedule.Options{
		SubsetSize: min(o.HostSubsetSize, limits.Subset), MaxIOOpsPerHost: int64(o.MaxIOOpsPerHost), MaxInstancesPerHost: int64(o.MaxInstancesPerHost),
		IsolatedHosts: o.IsolatedHosts, IsolatedImages: o.IsolatedImages, RestrictIsolated: o.RestrictIsolated,
		DefaultArchitecture:     o.DefaultArchitecture,
		ImageIsolationNamespace: o.ImageIsolationNamespace, ImageIsolationSeparator: o.ImageIsolationSeparator,
		ImagePropertySetting: ratios(o.ImagePropertySetting), MetricsSetting: ratios(o.MetricsSetting),
		MetricsRequired: o.MetricsRequired, MetricsUnavailable: o.MetricsUnavailable,
		ExactTenantKey: o.ExactTenantKey || o.release().ExactTenantKey(), StrictNova: o.Strict,
	}
}

// translation gives the options with which requests are translated.
func (o *Options) translation(aliases *nova.Aliases) *nova.Options {
	if o == nil {
		return &nova.Options{Aliases: aliases}
	}
	return &nova.Options{
		LimitTenants: o.LimitTenants, TenantsRequireAggregate: o.TenantsRequireAggregate,
		ImageTypeSupport: o.ImageTypeSupport, IsolateAggregates: o.IsolateAggregates, ImageMetadata: o.ImageMetadata,
		RoutedNetworks: o.RoutedNetworks, PCIInPlacement: o.PCIInPlacement,
		NoPCPUFallback: o.NoPCPUFallback, Strict: o.Strict, Release: int(o.release()), Aliases: aliases,
	}
}

func ratios(list []string) []schedule.Ratio {
	var out []schedule.Ratio
	for _, text := range list {
		name, factor, _ := strings.Cut(text, "=")
		if r, ok := schedule.ParseRatio(strings.TrimSpace(name) + "=" + factor); ok {
			out = append(out, r)
		}
	}
	return out
}
