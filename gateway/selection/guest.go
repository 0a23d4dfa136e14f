package selection

import (
	"slices"

	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// guestOf encodes what a claim of an allocation keeps of its instance for later requests; nil for nothing.
func guestOf(r *schedule.Request, rules *schedule.Rules, of *schedule.Allocation) *cellv1.Guest {
	n := r.Nova
	if n == nil {
		return nil
	}
	g := &cellv1.Guest{FlavorId: n.Flavor.ID}
	weighed := slices.ContainsFunc(rules.Weighers, func(w schedule.Weigher) bool { return w.Name == schedule.ImagePropertiesWeigher })
	if weighed && n.Image != nil && len(n.Image.Properties) > 0 {
		g.Image = wire.ImageOf(n.Image)
	}
	if n.NUMA != nil || len(n.PCI) > 0 {
		g.Numa, g.PciRequests, g.Networks = wire.NUMAOf(n.NUMA), wire.PCIOf(n.On(of.Mappings).PCI), wire.NetworksOf(n.Networks)
		// The filters are not run on a forced host, as in Nova.
		g.JudgeNuma = n.NUMA != nil && !r.Forced() && slices.Contains(rules.Filters, schedule.NUMAFilter)
		g.JudgePci = len(n.PCI) > 0 && !r.Forced() && slices.Contains(rules.Filters, schedule.PCIFilter)
	}
	if g.FlavorId == "" && g.Image == nil && g.Numa == nil && len(g.PciRequests) == 0 {
		return nil
	}
	return g
}
