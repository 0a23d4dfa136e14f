package proposingtest

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Nova is the writing side of what only Nova's own filters read.
func Nova(n *schedule.NovaRequest) *cellv1.NovaRequest {
	if n == nil {
		return nil
	}
	f := &n.Flavor
	out := &cellv1.NovaRequest{
		Flavor: &cellv1.NovaFlavor{
			Id: f.ID, Name: f.Name, Vcpus: f.VCPUs, MemoryMb: f.MemoryMB, RootGb: f.RootGB,
			EphemeralGb: f.EphemeralGB, SwapMb: f.SwapMB,
		},
		ProjectId:   n.ProjectID,
		Rebuild:     n.Rebuild,
		NeedThreads: n.NeedThreads,
	}
	wireNUMA(out, n)
	for _, p := range f.ExtraSpecs {
		out.Flavor.ExtraSpecs = append(out.Flavor.ExtraSpecs, &cellv1.Pair{Key: p.Key, Value: p.Value})
	}
	if n.Image != nil {
		out.Image = &cellv1.NovaImage{Id: n.Image.ID}
		for _, p := range n.Image.Properties {
			out.Image.Properties = append(out.Image.Properties, &cellv1.ImageProperty{Name: p.Name, Text: p.Text, Zero: p.Zero})
		}
	}
	for _, h := range n.Hints {
		out.Hints = append(out.Hints, &cellv1.NovaHint{Name: h.Name, Values: h.Values})
	}
	for _, r := range n.Retry {
		out.Retry = append(out.Retry, &cellv1.RetryHost{Host: r.Host, Node: r.Node})
	}
	return out
}

// Options is the writing side of options; nil are Nova's defaults.
func Options(o *schedule.Options) *cellv1.Options {
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

		MetricsWeightSetting: wireRatios(o.MetricsSetting), MetricsRequired: o.MetricsRequired,
		MetricsWeightOfUnavailable: o.MetricsUnavailable, ImagePropsWeightSetting: wireRatios(o.ImagePropertySetting),
		HostSubsetSize: int32(o.SubsetSize), ExactTenantKey: o.ExactTenantKey, StrictNova: o.StrictNova,
	}
}

func wireRatios(in []schedule.Ratio) []*cellv1.Ratio {
	var out []*cellv1.Ratio
	for _, r := range in {
		out = append(out, &cellv1.Ratio{Name: r.Name, Ratio: r.Ratio})
	}
	return out
}

// wireNUMA is the writing side of NUMA cells, devices and networks.
func wireNUMA(out *cellv1.NovaRequest, n *schedule.NovaRequest) {
	if n.NUMA != nil {
		out.Numa = &cellv1.GuestNuma{IsolateEmulator: n.NUMA.IsolateEmulator, Release: n.NUMA.Release}
		for _, c := range n.NUMA.Cells {
			out.Numa.Cells = append(out.Numa.Cells, &cellv1.GuestCell{
				Id: c.ID, Cpus: int64(c.CPUs), Dedicated: int64(c.Dedicated), MemoryMb: c.MemoryMB, PageSize: c.PageSize,
				CpuPolicy: c.Policy, ThreadPolicy: c.Threads,
			})
		}
	}
	for _, r := range n.PCI {
		x := &cellv1.PciRequest{Count: r.Count, NumaPolicy: r.Policy}
		for _, spec := range r.Specs {
			s := &cellv1.PciSpec{}
			for _, p := range spec {
				s.Properties = append(s.Properties, &cellv1.PciProperty{Key: p.Key, Value: p.Value, None: p.None})
			}
			x.Specs = append(x.Specs, s)
		}
		out.PciRequests = append(out.PciRequests, x)
	}
	if n.Networks != nil {
		out.Networks = &cellv1.GuestNetworks{Physnets: n.Networks.Physnets, Tunneled: n.Networks.Tunneled}
	}
}
