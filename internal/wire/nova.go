package wire

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// novaOf encodes the part of a request that only Nova's own filters read.
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
		Numa:      NUMAOf(n.NUMA), PciRequests: PCIOf(n.PCI), Networks: NetworksOf(n.Networks), NeedThreads: n.NeedThreads,
	}
	for _, p := range f.ExtraSpecs {
		out.Flavor.ExtraSpecs = append(out.Flavor.ExtraSpecs, &cellv1.Pair{Key: p.Key, Value: p.Value})
	}
	out.Image = ImageOf(n.Image)
	for _, h := range n.Hints {
		out.Hints = append(out.Hints, &cellv1.NovaHint{Name: h.Name, Values: h.Values})
	}
	for _, r := range n.Retry {
		out.Retry = append(out.Retry, &cellv1.RetryHost{Host: r.Host, Node: r.Node})
	}
	return out
}

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
		Guest: hardware.Guest{
			NUMA: r.NUMA(in.GetNuma()), PCI: r.PCI(in.GetPciRequests()), Networks: networksFrom(in.GetNetworks()),
		},
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

// ImageOf encodes an image; nil for none.
func ImageOf(i *schedule.Image) *cellv1.NovaImage {
	if i == nil {
		return nil
	}
	out := &cellv1.NovaImage{Id: i.ID}
	for _, p := range i.Properties {
		out.Properties = append(out.Properties, &cellv1.ImageProperty{Name: p.Name, Text: p.Text, Zero: p.Zero})
	}
	return out
}

// Properties decodes the properties of an image; nil for none.
func Properties(in []*cellv1.ImageProperty) []schedule.Property {
	var out []schedule.Property
	for _, p := range in {
		out = append(out, schedule.Property{Name: p.GetName(), Text: p.GetText(), Zero: p.GetZero()})
	}
	return out
}
