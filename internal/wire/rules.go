package wire

import (
	"fmt"

	"cellgate/internal/limits"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

func rulesOf(rules *schedule.Rules) *cellv1.Rules {
	out := &cellv1.Rules{
		Filters: rules.Filters, DefaultAvailabilityZone: rules.DefaultAvailabilityZone, Options: optionsOf(rules.Options),
	}
	if rules.Expression != nil {
		out.FilterExpression = rules.Expression.Text()
	}
	if rules.Weigh != nil {
		out.WeighExpression = rules.Weigh.Text()
	}
	for _, w := range rules.Weighers {
		out.Weighers = append(out.Weighers, &cellv1.Weigher{Name: w.Name, Multiplier: w.Multiplier})
	}
	return out
}

// Rules decodes the rules of a placement.
func (r *Fields) Rules(in *cellv1.Rules) *schedule.Rules {
	out := &schedule.Rules{
		Filters: in.GetFilters(), DefaultAvailabilityZone: in.GetDefaultAvailabilityZone(),
		Options: r.options(in.GetOptions()),
	}
	out.Expression, out.Weigh = r.expressions("placement.rules", in)
	for i, w := range in.GetWeighers() {
		out.Weighers = append(out.Weighers, schedule.Weigher{
			Name:       w.GetName(),
			Multiplier: r.finite(fmt.Sprintf("placement.rules.weighers[%d].multiplier", i), w.GetMultiplier()),
		})
	}
	return out
}

// optionsOf encodes options; nil stands for Nova's defaults.
func optionsOf(o *schedule.Options) *cellv1.Options {
	if o == nil {
		return nil
	}
	return &cellv1.Options{
		MaxIoOpsPerHost: o.MaxIOOpsPerHost, MaxInstancesPerHost: o.MaxInstancesPerHost,
		IsolatedHosts: o.IsolatedHosts, IsolatedImages: o.IsolatedImages,
		RestrictIsolatedHostsToIsolatedImages: o.RestrictIsolated,
		ImagePropertiesDefaultArchitecture:    o.DefaultArchitecture,

		AggregateImagePropertiesIsolationNamespace: o.ImageIsolationNamespace,
		AggregateImagePropertiesIsolationSeparator: o.ImageIsolationSeparator,

		MetricsWeightSetting: ratiosOf(o.MetricsSetting), MetricsRequired: o.MetricsRequired,
		MetricsWeightOfUnavailable: o.MetricsUnavailable, ImagePropsWeightSetting: ratiosOf(o.ImagePropertySetting),
		HostSubsetSize: int32(min(max(0, o.SubsetSize), limits.Subset)), ExactTenantKey: o.ExactTenantKey, StrictNova: o.StrictNova,
	}
}

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

func ratiosOf(in []schedule.Ratio) []*cellv1.Ratio {
	var out []*cellv1.Ratio
	for _, r := range in {
		out = append(out, &cellv1.Ratio{Name: r.Name, Ratio: r.Ratio})
	}
	return out
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
