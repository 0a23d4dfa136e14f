package shard

import (
	"maps"
	"math"
	"slices"
)

// NovaHost is what Nova's tables record of a host that an agent registered: its aggregates, and the allocation ratios
// of its root provider by resource class. They override what the agent reported (Host.Aggregates,
// Inventory.AllocationRatio), which is kept beside them: docs/adr/0002.
type NovaHost struct {
	// Version is the StateVersion of the import that last changed this: an older one does not.
	Version    uint64
	Aggregates []Aggregate
	Ratios     map[string]float64
	// NUMATopology and PCIStats are Facts of the row, less what instances use. They override the agent's
	// (Host.HardwareTexts) if it does not know its instances, else they are empty.
	NUMATopology, PCIStats string
	// ReportedAggregates and ReportedRatios are the agent's: all aggregates, and the ratios of the classes where
	// Nova's differ.
	ReportedAggregates []Aggregate
	ReportedRatios     map[string]float64
	// Left are the uuids of aggregates that the agent still reports although Nova removed the host from them. They do
	// not count.
	Left []string
}

// novaHostOf gives what an imported state records: the ratios are of classes with a total above 0.
func novaHostOf(imported *Host) NovaHost {
	n := NovaHost{Version: imported.StateVersion, Aggregates: imported.Aggregates}
	if f := imported.Facts; f != nil {
		n.NUMATopology, n.PCIStats = f.NUMATopology, f.PCIStats
	}
	for _, i := range imported.Providers[0].Inventories {
		if i.Total > 0 {
			if n.Ratios == nil {
				n.Ratios = map[string]float64{}
			}
			n.Ratios[i.ResourceClass] = i.AllocationRatio
		}
	}
	return n
}

// isAppliedTo reports whether an agent's host already has these aggregates and ratios of Nova.
func (n *NovaHost) isAppliedTo(h *Host) bool {
	if h.Nova == nil {
		return len(n.Aggregates) == 0 && len(n.Ratios) == 0
	}
	return maps.Equal(n.Ratios, h.Nova.Ratios) && SameAggregates(n.Aggregates, h.Nova.Aggregates)
}

// CountsHardware reports whether Nova's tables, and not the agent, count the NUMA cells and devices of the host.
func (n *NovaHost) CountsHardware() bool {
	return n != nil && (n.NUMATopology != "" || n.PCIStats != "")
}

// RaisesRatio reports whether Nova's allocation ratio of a class is above the agent's: the agent then takes the host for
// full while it has room.
func (n *NovaHost) RaisesRatio() bool {
	if n == nil {
		return false
	}
	for class, ratio := range n.ReportedRatios {
		if n.Ratios[class] > ratio {
			return true
		}
	}
	return false
}

// SameAggregates reports whether two lists are equal, order included.
func SameAggregates(a, b []Aggregate) bool {
	return slices.EqualFunc(a, b, func(x, y Aggregate) bool {
		return x.UUID == y.UUID && x.Name == y.Name && maps.Equal(x.Metadata, y.Metadata)
	})
}

// followNova gives an agent's host unchanged, or its new row with what Nova records now. An empty nova leaves only what
// the agent reported. The caller reassigns.
func (t *transaction) followNova(old *Host, nova NovaHost) *Host {
	n := old.Nova
	sameHardware := !old.InstancesUnknown || n == nil || n.NUMATopology == nova.NUMATopology && n.PCIStats == nova.PCIStats
	if sameHardware && nova.isAppliedTo(old) {
		return old
	}
	if n != nil {
		nova.Left = slices.Clone(n.Left)
		for _, a := range n.Aggregates {
			nova.Left = append(nova.Left, a.UUID)
		}
	}
	h := old.reported()
	h.follow(&nova)
	t.putHostRow(h)
	return h
}

// Followed gives an agent's host with what its imported state records: the host as it is once the gate is NATIVE.
func Followed(agents, imported *Host) *Host {
	nova, h := novaHostOf(imported), agents.reported()
	h.follow(&nova)
	return h
}

// follow merges Nova's aggregates and ratios into an agent's report. Aggregates are joined by uuid; Nova's wins.
func (h *Host) follow(nova *NovaHost) {
	if nova == nil || len(nova.Aggregates) == 0 && len(nova.Ratios) == 0 {
		h.Nova = nil
		return
	}
	n := &NovaHost{Version: nova.Version, Aggregates: nova.Aggregates, Ratios: nova.Ratios, ReportedAggregates: h.Aggregates, ReportedRatios: h.setRatios(nova.Ratios)}
	if h.InstancesUnknown {
		n.NUMATopology, n.PCIStats = nova.NUMATopology, nova.PCIStats
	}
	h.Nova, h.Aggregates = n, slices.Clone(n.Aggregates)
	for _, a := range n.ReportedAggregates {
		switch {
		case slices.ContainsFunc(n.Aggregates, func(o Aggregate) bool { return o.UUID == a.UUID }):
		case slices.Contains(nova.Left, a.UUID):
			n.Left = append(n.Left, a.UUID)
		default:
			h.Aggregates = append(h.Aggregates, a)
		}
	}
}

// reported gives a copy of a host as its agent reported it.
func (h *Host) reported() *Host {
	r := *h
	if r.Nova != nil {
		r.Nova, r.Aggregates = nil, h.Nova.ReportedAggregates
		r.setRatios(h.Nova.ReportedRatios)
	}
	return &r
}

// setRatios sets ratios of the root provider, except those that would make an inventory invalid. It gives the ratios
// that it replaced; nil for none. The row that h was copied from does not change.
func (h *Host) setRatios(of map[string]float64) (replaced map[string]float64) {
	h.Providers = slices.Clone(h.Providers)
	root := &h.Providers[0]
	root.Inventories = slices.Clone(root.Inventories)
	for i := range root.Inventories {
		inv := &root.Inventories[i]
		ratio, is := of[inv.ResourceClass]
		if !is || ratio == inv.AllocationRatio || float64(inv.Total-inv.Reserved)*ratio > math.MaxInt32 {
			continue
		}
		if replaced == nil {
			replaced = map[string]float64{}
		}
		replaced[inv.ResourceClass], inv.AllocationRatio = inv.AllocationRatio, ratio
	}
	return replaced
}
