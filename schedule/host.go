package schedule

// Host is one host, as it is put into a table.
type Host struct {
	UUID        ID
	ServiceHost string
	NodeName    string
	// Cell is the uuid of the host's cell.
	Cell string
	// Disabled is the state of the compute service, as the host reports it. Withheld is why an operator keeps new
	// instances from the host; empty for no reason. Down: the last heartbeat is too old.
	Disabled bool
	Withheld string
	Down     bool
	Traits   []string
	// Aggregates the host is in. Zones come from their metadata key
	// availability_zone.
	Aggregates []Aggregate
	// Resources of the root provider.
	Resources []Resource
	// Children are the other providers of the host's tree, each after its parent.
	Children []Provider
	// View is Nova's view of the host, which weighers read.
	View View
	// Facts are what the host reports beyond that; nil for nothing.
	Facts *Facts
	// Namespaces are the facts that services and the host report; nil for none.
	Namespaces *Namespaces
}

// Aggregate is an aggregate a host is in.
type Aggregate struct {
	UUID     string
	Name     string
	Metadata map[string]string
}

// Resource is a provider's inventory of a class. Capacity is (total - reserved) * ratio, rounded down. An amount n
// fits if Used + n <= Capacity, MinUnit <= n <= MaxUnit, and n is a multiple of StepSize.
type Resource struct {
	Class    string
	Capacity int64
	Used     int64
	MinUnit  int64
	MaxUnit  int64
	StepSize int64
}

// View holds the fields of Nova's HostState that weighers read. If a host reports inventories, they are derived:
// vcpus_total etc. from the totals, the used and free amounts from reserved + used.
type View struct {
	VCPUsTotal   int64
	CPURatio     float64
	VCPUsUsed    int64
	TotalRAMMB   int64
	RAMRatio     float64
	FreeRAMMB    int64
	TotalDiskGB  int64
	DiskRatio    float64
	DiskUsedMB   int64
	FreeDiskMB   int64
	NumIOOps     int64
	NumInstances int64
	// PCIFree is the sum of free devices over the host's PCI pools.
	PCIFree           int64
	HypervisorVersion int64
	FailedBuilds      int64
}

// Place is a host that an instance is on, and its group there.
type Place struct {
	Host  ID
	Group ID
}

// Consumer is an instance on a host. Group is the zero ID if its claim has none.
type Consumer struct {
	Instance ID
	Group    ID
	// Flavor is the flavor's id; empty if not known. TypeAffinityFilter reads it.
	Flavor string
	// Image is the instance's image, for ImagePropertiesWeigher; nil if not known. It is never changed.
	Image *Image
}
