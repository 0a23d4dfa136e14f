package hardware

// The CPU and thread policies, by Nova's names. An empty CPU policy means shared.
const (
	CPUShared    = "shared"
	CPUDedicated = "dedicated"
	CPUMixed     = "mixed"

	ThreadPrefer  = "prefer"
	ThreadIsolate = "isolate"
	ThreadRequire = "require"
)

// Page sizes that are not a number of KiB.
const (
	PageSmall int64 = -1
	PageLarge int64 = -2
	PageAny   int64 = -3
)

// Guest is what an instance asks of a host's NUMA cells and PCI devices.
type Guest struct {
	// NUMA is the guest's topology; nil for none.
	NUMA *InstanceNUMA `json:"numa,omitempty"`
	// PCI are the requested devices.
	PCI []PCIRequest `json:"pci,omitempty"`
	// Networks that the NUMA cells must be near; nil for none.
	Networks *NetworkNeeds `json:"networks,omitempty"`
}

// InstanceNUMA is the guest's NUMA topology with all values resolved, like an InstanceNUMATopology. It has at least
// one cell.
type InstanceNUMA struct {
	Cells []InstanceCell `json:"cells"`
	// IsolateEmulator: the first cell needs one more dedicated CPU, for the emulator's threads.
	IsolateEmulator bool `json:"isolate_emulator,omitempty"`
	// Release is the major version of the Nova whose rules decide how cells fit; 0 stands for 27 and older.
	Release int32 `json:"release,omitempty"`
}

// InstanceCell is one NUMA cell of a guest.
type InstanceCell struct {
	// ID is the request's number of the cell. Nova's search for a fit reads it.
	ID int64 `json:"id"`
	// CPUs share the host cell's shared CPUs; Dedicated ones are pinned.
	CPUs      int   `json:"cpus,omitempty"`
	Dedicated int   `json:"dedicated,omitempty"`
	MemoryMB  int64 `json:"memory_mb,omitempty"`
	// PageSize is in KiB, or PageSmall, PageLarge or PageAny; 0 if not requested.
	PageSize int64 `json:"page_size,omitempty"`
	// Policy is empty or one of CPUShared, CPUDedicated, CPUMixed.
	Policy string `json:"policy,omitempty"`
	// Threads is empty or one of ThreadPrefer, ThreadIsolate, ThreadRequire.
	Threads string `json:"threads,omitempty"`
}

// Pinned reports whether the cell has dedicated CPUs by its policy.
func (c *InstanceCell) Pinned() bool { return c.Policy == CPUDedicated || c.Policy == CPUMixed }

func (c *InstanceCell) shared() bool { return c.Policy != CPUDedicated }

// The NUMA affinity policies of devices, by Nova's names. An empty policy means legacy.
const (
	PCIRequired  = "required"
	PCIPreferred = "preferred"
	PCILegacy    = "legacy"
	PCISocket    = "socket"
)

// PCIRequest asks for devices, of an alias or for a port.
type PCIRequest struct {
	// Count is at least 1.
	Count int64 `json:"count"`
	// Specs: a device must match one of them. Each has its keys in order.
	Specs []PCISpec `json:"specs,omitempty"`
	// Policy is empty or one of PCIRequired, PCIPreferred, PCILegacy, PCISocket.
	Policy string `json:"policy,omitempty"`
	// Groups are the suffixes of the request groups that ask Placement for the devices, one for each device. A suffix
	// may be repeated. Nil: Placement is not asked.
	Groups []string `json:"groups,omitempty"`
	// Providers are the uuids of the groups' providers, in the order of Groups; nil before an allocation.
	Providers []string `json:"providers,omitempty"`
}

// PCISpec is a list of properties that a device must have. Values compare without case.
type PCISpec []PCIProperty

// PCIProperty is a property of a device. None: the device has no value for the key.
type PCIProperty struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	None  bool   `json:"none,omitempty"`
}

// NetworkNeeds are the networks that a guest's NUMA cells must be near, as in NetworkMetadata.
type NetworkNeeds struct {
	Physnets []string `json:"physnets,omitempty"`
	Tunneled bool     `json:"tunneled,omitempty"`
}
