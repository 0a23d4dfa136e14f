package proposing

import (
	"fmt"

	"cellgate/internal/limits"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// nova reads what only Nova's own filters read; nil for nothing.
func (r *Fields) nova(in *cellv1.NovaRequest) *schedule.NovaRequest {
	if in == nil {
		return nil
	}
	f := in.GetFlavor()
	n := &schedule.NovaRequest{
		Flavor: schedule.Flavor{
			ID: f.GetId(), Name: f.GetName(), VCPUs: f.GetVcpus(), MemoryMB: f.GetMemoryMb(), RootGB: f.GetRootGb(),
			EphemeralGB: f.GetEphemeralGb(), SwapMB: f.GetSwapMb(),
		},
		ProjectID: in.GetProjectId(),
		Rebuild:   in.GetRebuild(),
		NUMA:      r.NUMA(in.GetNuma()), PCI: r.PCI(in.GetPciRequests()), Networks: networks(in.GetNetworks()),
		NeedThreads: in.GetNeedThreads(),
	}
	for _, p := range f.GetExtraSpecs() {
		n.Flavor.ExtraSpecs = append(n.Flavor.ExtraSpecs, schedule.Pair{Key: p.GetKey(), Value: p.GetValue()})
	}
	if in.GetImage() != nil {
		n.Image = &schedule.Image{ID: in.GetImage().GetId(), Properties: Properties(in.GetImage().GetProperties())}
	}
	for _, h := range in.GetHints() {
		n.Hints = append(n.Hints, schedule.Hint{Name: h.GetName(), Values: h.GetValues()})
	}
	for _, h := range in.GetRetry() {
		n.Retry = append(n.Retry, schedule.RetryHost{Host: h.GetHost(), Node: h.GetNode()})
	}
	return n
}

// Properties reads those of an image; nil for none.
func Properties(in []*cellv1.ImageProperty) []schedule.Property {
	var out []schedule.Property
	for _, p := range in {
		out = append(out, schedule.Property{Name: p.GetName(), Text: p.GetText(), Zero: p.GetZero()})
	}
	return out
}

// options reads the options; nil are Nova's defaults.
func (r *Fields) options(in *cellv1.Options) *schedule.Options {
	if in == nil {
		return nil
	}
	const path = "placement.rules.options."
	if n := in.GetHostSubsetSize(); n < 0 || n > limits.Subset {
		r.Problem(path+"host_subset_size", "must be 0 to %d", limits.Subset)
	}
	return &schedule.Options{
		MaxIOOpsPerHost: in.GetMaxIoOpsPerHost(), MaxInstancesPerHost: in.GetMaxInstancesPerHost(),
		IsolatedHosts: in.GetIsolatedHosts(), IsolatedImages: in.GetIsolatedImages(),
		RestrictIsolated:        in.GetRestrictIsolatedHostsToIsolatedImages(),
		DefaultArchitecture:     in.GetImagePropertiesDefaultArchitecture(),
		ImageIsolationNamespace: in.GetAggregateImagePropertiesIsolationNamespace(),
		ImageIsolationSeparator: in.GetAggregateImagePropertiesIsolationSeparator(),
		MetricsSetting:          r.ratios(path+"metrics_weight_setting", in.GetMetricsWeightSetting()),
		MetricsRequired:         in.GetMetricsRequired(),
		MetricsUnavailable:      r.weight(path+"metrics_weight_of_unavailable", in.GetMetricsWeightOfUnavailable()),
		ImagePropertySetting:    r.ratios(path+"image_props_weight_setting", in.GetImagePropsWeightSetting()),
		SubsetSize:              int(in.GetHostSubsetSize()),
		ExactTenantKey:          in.GetExactTenantKey(),
		StrictNova:              in.GetStrictNova(),
	}
}

func (r *Fields) ratios(path string, in []*cellv1.Ratio) []schedule.Ratio {
	var out []schedule.Ratio
	for i, x := range in {
		out = append(out, schedule.Ratio{Name: x.GetName(), Ratio: r.weight(fmt.Sprintf("%s[%d].ratio", path, i), x.GetRatio())})
	}
	return out
}

func (r *Fields) weight(path string, x float64) float64 {
	if !limits.IsWeight(x) {
		r.Problem(path, "must be a number of at most %v", limits.Weight)
	}
	return x
}
