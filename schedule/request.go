package schedule

// Request is what an instance needs: everything of a request that filters and
// weighers read, and nothing else (its shape, together with Rules). All
// instances of one request have the same needs.
type Request struct {
	// Resources are asked of the root provider. Amounts are above 0; a class
	// stands once.
	Resources []Amount
	// Required traits, all; Forbidden, none; AnyOf, at least one of each set.
	Required  []string
	Forbidden []string
	AnyOf     [][]string
	// Fallback, when not nil, is asked of the hosts that do not pass Resources,
	// Required and Forbidden.
	Fallback *Fallback
	// Tree is what is asked of child providers too; nil for nothing.
	Tree *Tree
	// MemberOf: in at least one aggregate of each set (uuids). Forbidden: in
	// none.
	MemberOf            [][]string
	ForbiddenAggregates []string
	// Tenant, when not empty: the host is in an aggregate that is named for this
	// project (see TenantsOf).
	Tenant string
	// Isolated, when not nil: the host is in no aggregate that is for others.
	Isolated *Isolation
	// AvailabilityZone, when not empty: the host is in it. A host that is in no
	// zone counts as in Rules.DefaultAvailabilityZone.
	AvailabilityZone string
	// IgnoreHosts and ForceHosts are service hosts and compare without case;
	// ForceNodes are hypervisor nodes and compare exactly (Nova,
	// host_manager.py). When either force list is set, only the filters that
	// Placement would apply run: see Forced.
	IgnoreHosts []string
	ForceHosts  []string
	ForceNodes  []string
	// IgnoreUUIDs are hosts that are left out, of whatever service host.
	IgnoreUUIDs []ID
	Destination *Destination
	Group       *Group
	// Moving is the instance that is being moved; zero for none. Under affinity the
	// places that it has are not the group's; under anti-affinity a host that it is
	// on passes. The soft policies count it like any other, as Nova does.
	Moving ID
	// CheckForced runs every filter on forced hosts too (Nova's
	// _nova_check_type hint).
	CheckForced bool
	// Consume is what a pick takes from the Nova view of its host.
	Consume Consumption
	// Expression, when not nil, is asked of the hosts that pass everything else, forced
	// ones too, but not on a rebuild.
	Expression Expression
	// Weigh, when not nil, gives hosts that passed the weight of ExpressionWeigher.
	Weigh WeighExpression
	// Nova is what only Nova's own filters and weighers read; nil for nothing.
	Nova *NovaRequest
}

// Forced reports whether the request names its hosts and so skips Nova's
// filters. Resources, traits, aggregates, the zone and a host's disabled state
// are Placement's business in Nova (allocation candidates, request filters) and
// are checked all the same; a host that is down passes.
func (r *Request) Forced() bool {
	return (len(r.ForceHosts) > 0 || len(r.ForceNodes) > 0) && !r.CheckForced
}

// Amount is an amount of one resource class.
type Amount struct {
	Class string
	N     int64
}

// Destination narrows to a host, node or cell (uuid); empty means any. Compared
// exactly.
type Destination struct {
	Host               string
	Node               string
	Cell               string
	AllowCrossCellMove bool
}

// Policy is a server group's policy.
type Policy string

// The policies, by Nova's names.
const (
	Affinity         Policy = "affinity"
	AntiAffinity     Policy = "anti-affinity"
	SoftAffinity     Policy = "soft-affinity"
	SoftAntiAffinity Policy = "soft-anti-affinity"
)

// Group is a server group. A host's members are the consumers on it that hold a
// claim in the group or stand in Members, and the instances picked for it
// earlier in the same request (with MembersExact: only those of them that stand
// in Members, as Nova does).
type Group struct {
	UUID   ID
	Policy Policy
	// MaxPerHost is anti-affinity's limit; below 1 means 1.
	MaxPerHost int
	Members    []ID
	// Hosts are service hosts known from elsewhere to hold members. Affinity
	// joins them with those the cells hold.
	Hosts        []string
	MembersExact bool
}

// Consumption is what one instance takes from the Nova view of a host.
type Consumption struct {
	VCPUs  int64
	RAMMB  int64
	DiskMB int64
}

// Rules are what to decide by. They travel with every query, so that all cells
// decide alike.
type Rules struct {
	// Filters by name, in the configured order: reject counts go to the first
	// that rejects. DefaultFilters when nil.
	Filters []string
	// Weighers in the order their scores are added. A weigher not named does
	// not count. DefaultWeighers when nil.
	Weighers                []Weigher
	DefaultAvailabilityZone string
	// Options of filters and weighers; DefaultOptions when nil.
	Options *Options
	// Expression, when not nil, is asked by ConfiguredExpressionFilter: of the hosts that
	// pass everything else but the request's own, neither of forced ones nor on a rebuild,
	// as with Nova's filters.
	Expression Expression
	// Weigh, when not nil, gives hosts that passed the weight of ConfiguredExpressionWeigher.
	Weigh WeighExpression
}

// Weigher is a weigher's name and its multiplier, which may be negative.
type Weigher struct {
	Name       string
	Multiplier float64
}

// The filters there are, by name. Those Nova has keep Nova's names; ResourceFilter,
// TraitFilter and AggregateFilter do what Nova leaves to Placement, and
// HostFilter is the request's own restriction (ignored and forced hosts,
// destination).
const (
	HostFilter         = "HostFilter"
	ComputeFilter      = "ComputeFilter"
	ZoneFilter         = "AvailabilityZoneFilter"
	AggregateFilter    = "AggregateFilter"
	TraitFilter        = "TraitFilter"
	ResourceFilter     = "ResourceFilter"
	AntiAffinityFilter = "ServerGroupAntiAffinityFilter"
	AffinityFilter     = "ServerGroupAffinityFilter"
)

// DefaultFilters is the configured order when there is none: the request's own
// restriction first, which always runs.
func DefaultFilters() []string {
	return []string{
		HostFilter, ComputeFilter, ZoneFilter, AggregateFilter, TraitFilter,
		ResourceFilter, CapabilitiesFilter, ImageFilter, AntiAffinityFilter, AffinityFilter,
	}
}

// The weighers there are, by Nova's names.
const (
	RAMWeigher               = "RAMWeigher"
	CPUWeigher               = "CPUWeigher"
	DiskWeigher              = "DiskWeigher"
	IoOpsWeigher             = "IoOpsWeigher"
	NumInstancesWeigher      = "NumInstancesWeigher"
	PCIWeigher               = "PCIWeigher"
	HypervisorVersionWeigher = "HypervisorVersionWeigher"
	BuildFailureWeigher      = "BuildFailureWeigher"
	CrossCellWeigher         = "CrossCellWeigher"
	SoftAffinityWeigher      = "ServerGroupSoftAffinityWeigher"
	SoftAntiAffinityWeigher  = "ServerGroupSoftAntiAffinityWeigher"
)

// DefaultWeighers are Nova's defaults (nova/conf/scheduler.py): spread by RAM,
// CPU and disk, away from busy and failing hosts.
func DefaultWeighers() []Weigher {
	return []Weigher{
		{RAMWeigher, 1},
		{CPUWeigher, 1},
		{DiskWeigher, 1},
		{IoOpsWeigher, -1},
		{SoftAffinityWeigher, 1},
		{SoftAntiAffinityWeigher, 1},
		{BuildFailureWeigher, 1000000},
		{CrossCellWeigher, 1000000},
		{PCIWeigher, 1},
		{HypervisorVersionWeigher, 1},
	}
}
