package schedule

// Host is one host as the table takes it in: a whole row.
type Host struct {
	UUID        ID
	ServiceHost string
	NodeName    string
	// Cell is the uuid of the host's cell.
	Cell string
	// Disabled is the state of the compute service, as the host reports it. Withheld is why an
	// operator of the cell keeps new instances from the host; empty for no reason. Down: the last
	// heartbeat is too old.
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
	// View is Nova's picture of the host: what weighers read.
	View View
	// Facts are what else the host says of itself; nil for nothing.
	Facts *Facts
	// Namespaces are what services and the host say of it; nil for nothing.
	Namespaces *Namespaces
}

// Aggregate is an aggregate a host is in.
type Aggregate struct {
	UUID     string
	Name     string
	Metadata map[string]string
}

// Resource is what a provider has of a class. Capacity is the rounded
// down (total - reserved) * ratio; an amount n fits when Used + n <= Capacity,
// MinUnit <= n <= MaxUnit and n is a multiple of StepSize.
type Resource struct {
	Class    string
	Capacity int64
	Used     int64
	MinUnit  int64
	MaxUnit  int64
	StepSize int64
}

// View holds the fields of Nova's HostState that weighers read. For a host that
// reports inventories they follow from them: vcpus_total etc. from the totals,
// the used and free amounts from reserved + used.
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

// Place is a host that an instance is on, and the group it is in there.
type Place struct {
	Host  ID
	Group ID
}

// Consumer is an instance on a host. Group is the zero ID when its claim is in
// none.
type Consumer struct {
	Instance ID
	Group    ID
	// Flavor is its id; empty when it is not known. TypeAffinityFilter reads
	// it.
	Flavor string
	// Image it was built from, for ImagePropertiesWeigher; nil when it is not
	// known. It is never changed.
	Image *Image
}
