package gateway

import (
	"slices"

	"cellgate/internal/limits"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// novaOf gives the wire form of what only Nova's own filters read.
func novaOf(n *schedule.NovaRequest) *cellv1.NovaRequest {
	if n == nil {
		return nil
	}
	f := &n.Flavor
	out := &cellv1.NovaRequest{
		Flavor: &cellv1.NovaFlavor{
			Id: f.ID, Name: f.Name, Vcpus: f.VCPUs, MemoryMb: f.MemoryMB, RootGb: f.RootGB,
			EphemeralGb: f.EphemeralGB, SwapMb: f.SwapMB,
		},
		ProjectId: n.ProjectID,
		Rebuild:   n.Rebuild,
		Numa:      numaOf(n.NUMA), PciRequests: pciOf(n.PCI), Networks: networksOf(n.Networks), NeedThreads: n.NeedThreads,
	}
	for _, p := range f.ExtraSpecs {
		out.Flavor.ExtraSpecs = append(out.Flavor.ExtraSpecs, &cellv1.Pair{Key: p.Key, Value: p.Value})
	}
	out.Image = imageOf(n.Image)
	for _, h := range n.Hints {
		out.Hints = append(out.Hints, &cellv1.NovaHint{Name: h.Name, Values: h.Values})
	}
	for _, r := range n.Retry {
		out.Retry = append(out.Retry, &cellv1.RetryHost{Host: r.Host, Node: r.Node})
	}
	return out
}

// guestOf is what a claim keeps of its instance for later requests; nil for
// nothing.
func guestOf(r *schedule.Request, rules *schedule.Rules) *cellv1.Guest {
	n := r.Nova
	if n == nil {
		return nil
	}
	g := &cellv1.Guest{FlavorId: n.Flavor.ID}
	weighed := slices.ContainsFunc(rules.Weighers, func(w schedule.Weigher) bool { return w.Name == schedule.ImagePropertiesWeigher })
	if weighed && n.Image != nil && len(n.Image.Properties) > 0 {
		g.Image = imageOf(n.Image)
	}
	if n.NUMA != nil || len(n.PCI) > 0 {
		g.Numa, g.PciRequests, g.Networks = numaOf(n.NUMA), pciOf(n.PCI), networksOf(n.Networks)
		// A forced host is not judged, as in Nova.
		g.JudgeNuma = n.NUMA != nil && !r.Forced() && slices.Contains(rules.Filters, schedule.NUMAFilter)
		g.JudgePci = len(n.PCI) > 0 && !r.Forced() && slices.Contains(rules.Filters, schedule.PCIFilter)
	}
	if g.FlavorId == "" && g.Image == nil && g.Numa == nil && len(g.PciRequests) == 0 {
		return nil
	}
	return g
}

func imageOf(i *schedule.Image) *cellv1.NovaImage {
	if i == nil {
		return nil
	}
	out := &cellv1.NovaImage{Id: i.ID}
	for _, p := range i.Properties {
		out.Properties = append(out.Properties, &cellv1.ImageProperty{Name: p.Name, Text: p.Text, Zero: p.Zero})
	}
	return out
}

// optionsOf gives the wire form of options; nil are Nova's defaults.
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

func ratiosOf(in []schedule.Ratio) []*cellv1.Ratio {
	var out []*cellv1.Ratio
	for _, r := range in {
		out = append(out, &cellv1.Ratio{Name: r.Name, Ratio: r.Ratio})
	}
	return out
}

// raisedFrom reads an exception of Nova's; nil for none.
func raisedFrom(r *cellv1.Raised) *schedule.Raised {
	if r == nil {
		return nil
	}
	return &schedule.Raised{
		Stage: r.GetStage(), Filter: r.GetFilter(), Host: r.GetHost(), Class: r.GetClass(), Message: r.GetMessage(),
	}
}
