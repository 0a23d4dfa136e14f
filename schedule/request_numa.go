package schedule

import "slices"

// The policies of dedicated CPUs by Nova's names. Shared is what an empty policy
// means, too.
const (
	CPUShared    = "shared"
	CPUDedicated = "dedicated"
	CPUMixed     = "mixed"

	ThreadPrefer  = "prefer"
	ThreadIsolate = "isolate"
	ThreadRequire = "require"
)

// Page sizes that are no number of KiB.
const (
	PageSmall int64 = -1
	PageLarge int64 = -2
	PageAny   int64 = -3
)

// InstanceNUMA is the guest's NUMA topology, resolved: what InstanceNUMATopology
// has. It has at least one cell.
type InstanceNUMA struct {
	Cells []InstanceCell `json:"cells"`
	// IsolateEmulator: one more dedicated CPU beside the first cell, for the
	// emulator's threads.
	IsolateEmulator bool `json:"isolate_emulator,omitempty"`
	// Release is the first number of the versions of the Nova by whose rules cells fit;
	// 0 stands for those up to 27.
	Release int32 `json:"release,omitempty"`
}

// InstanceCell is one NUMA cell of a guest.
type InstanceCell struct {
	// ID as the request has it. Nova's search for a fit reads it.
	ID int64 `json:"id"`
	// CPUs float over the host cell's shared CPUs; Dedicated ones are pinned.
	CPUs      int   `json:"cpus,omitempty"`
	Dedicated int   `json:"dedicated,omitempty"`
	MemoryMB  int64 `json:"memory_mb,omitempty"`
	// PageSize in KiB, or one of PageSmall, PageLarge, PageAny; 0 for none asked.
	PageSize int64 `json:"page_size,omitempty"`
	// Policy is empty or one of CPUShared, CPUDedicated, CPUMixed.
	Policy string `json:"policy,omitempty"`
	// Threads is empty or one of ThreadPrefer, ThreadIsolate, ThreadRequire.
	Threads string `json:"threads,omitempty"`
}

func (c *InstanceCell) pinned() bool { return c.Policy == CPUDedicated || c.Policy == CPUMixed }

func (c *InstanceCell) shared() bool { return c.Policy != CPUDedicated }

// The NUMA affinity policies of devices, by Nova's names. Legacy is what an empty
// policy means, too.
const (
	PCIRequired  = "required"
	PCIPreferred = "preferred"
	PCILegacy    = "legacy"
	PCISocket    = "socket"
)

// PCIRequest asks for devices: an alias, or a port's.
type PCIRequest struct {
	// Count is at least 1.
	Count int64 `json:"count"`
	// Specs: a device matches one of them. Each has its keys in order.
	Specs []PCISpec `json:"specs,omitempty"`
	// Policy is empty or one of PCIRequired, PCIPreferred, PCILegacy, PCISocket.
	Policy string `json:"policy,omitempty"`
	// Groups are the suffixes of the request groups that ask Placement for the devices, one for each device; nil where
	// Placement is not asked. A suffix may stand several times.
	Groups []string `json:"groups,omitempty"`
	// Providers are the uuids of the providers that the groups got, in the order of Groups; nil before they got any.
	Providers []string `json:"providers,omitempty"`
}

// On gives the request with the providers that an allocation gives the groups of its devices.
func (n *NovaRequest) On(mappings []Mapping) *NovaRequest {
	if !n.mapsDevices() {
		return n
	}
	out := *n
	out.PCI = slices.Clone(n.PCI)
	for i := range out.PCI {
		r := &out.PCI[i]
		r.Providers = nil
		for _, suffix := range r.Groups {
			if at := slices.IndexFunc(mappings, func(m Mapping) bool { return m.Suffix == suffix && len(m.Providers) > 0 }); at >= 0 {
				r.Providers = append(r.Providers, mappings[at].Providers[0].String())
			}
		}
	}
	return &out
}

// mapsDevices reports whether request groups ask Placement for some of the devices.
func (n *NovaRequest) mapsDevices() bool {
	return slices.ContainsFunc(n.PCI, func(r PCIRequest) bool { return len(r.Groups) > 0 })
}

// PCISpec is what a device has under some keys. Texts compare without case.
type PCISpec []PCIProperty

// PCIProperty is one of them. None: the device has nothing under the key.
type PCIProperty struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	None  bool   `json:"none,omitempty"`
}

// NetworkNeeds are the networks that guests of a NUMA topology want near: what
// NetworkMetadata has.
type NetworkNeeds struct {
	Physnets []string `json:"physnets,omitempty"`
	Tunneled bool     `json:"tunneled,omitempty"`
}
