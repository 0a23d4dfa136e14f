package rules

import (
	"strings"

	"cellgate/internal/config"
	"cellgate/internal/limits"
	"cellgate/internal/novarelease"
	"cellgate/schedule"
	"cellgate/schedule/nova"
)

// Options are Nova's options of filters and weighers (schedule.Options), and of the translation of requests
// (nova.Options).
type Options = config.NovaOptions

// releaseOf gives the named release; 0 for an unknown name, which Check refuses at the start.
func releaseOf(o *Options) novarelease.Release {
	if o == nil {
		return 0
	}
	r, err := novarelease.Parse(o.Release)
	if err != nil {
		return 0
	}
	return r
}

// coreOptions gives the options for package schedule; nil for nil.
func coreOptions(o *Options) *schedule.Options {
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
		ExactTenantKey: o.ExactTenantKey || releaseOf(o).ExactTenantKey(), StrictNova: o.Strict,
	}
}

// translationOptions gives the options with which requests are translated.
func translationOptions(o *Options, aliases *nova.Aliases) *nova.Options {
	if o == nil {
		return &nova.Options{Aliases: aliases}
	}
	return &nova.Options{
		LimitTenants: o.LimitTenants, TenantsRequireAggregate: o.TenantsRequireAggregate,
		ImageTypeSupport: o.ImageTypeSupport, IsolateAggregates: o.IsolateAggregates, ImageMetadata: o.ImageMetadata,
		RoutedNetworks: o.RoutedNetworks, PCIInPlacement: o.PCIInPlacement,
		NoPCPUFallback: o.NoPCPUFallback, Strict: o.Strict, Release: int(releaseOf(o)), Aliases: aliases,
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
