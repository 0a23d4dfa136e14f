package schedule

// Request is what an instance needs: exactly the parts of a request that filters and weighers read. Together with
// Rules it is the request's shape. All instances of one request have the same needs.
type Request struct {
	// Resources are amounts of the root provider, above 0. Each class is listed once.
	Resources []Amount
	// Required: all of these traits; Forbidden: none; AnyOf: at least one of each set.
	Required  []string
	Forbidden []string
	AnyOf     [][]string
	// Fallback, unless nil, applies to the hosts that do not pass Resources, Required and Forbidden.
	Fallback *Fallback
	// Tree is what child providers may provide too; nil for nothing.
	Tree *Tree
	// MemberOf: the host is in at least one aggregate of each set (uuids). ForbiddenAggregates: in none.
	MemberOf            [][]string
	ForbiddenAggregates []string
	// Tenant, unless empty: the host is in an aggregate reserved for this project (see TenantsOf).
	Tenant string
	// Isolated, unless nil: the host is in no aggregate that is reserved for other requests.
	Isolated *Isolation
	// AvailabilityZone, unless empty: the host is in it. A host in no zone counts as in
	// Rules.DefaultAvailabilityZone.
	AvailabilityZone string
	// IgnoreHosts and ForceHosts are service hosts, compared without case. ForceNodes are hypervisor nodes, compared
	// exactly (Nova, host_manager.py). If a force list is set, only the filters that Placement would apply run: see
	// Forced.
	IgnoreHosts []string
	ForceHosts  []string
	ForceNodes  []string
	// IgnoreUUIDs are hosts that are left out, whatever their service host.
	IgnoreUUIDs []ID
	Destination *Destination
	Group       *Group
	// Moving is the instance that is being moved; zero for none. Under affinity its places do not count as the
	// group's; under anti-affinity a host that it is on passes. The soft policies count it like any other instance,
	// as Nova does.
	Moving ID
	// CheckForced runs every filter on forced hosts too (Nova's
	// _nova_check_type hint).
	CheckForced bool
	// Consume is what a pick changes in its host's Nova view.
	Consume Consumption
	// Expression, unless nil, applies to the hosts that pass everything else, also to forced ones, but not on a
	// rebuild.
	Expression Expression
	// Weigh, unless nil, gives hosts that passed the raw weight of ExpressionWeigher.
	Weigh WeighExpression
	// Nova is what only Nova's own filters and weighers read; nil for nothing.
	Nova *NovaRequest
}

// Forced reports whether the request names its hosts and so skips Nova's filters. Resources, traits, aggregates, the
// zone and a host's disabled state belong to Placement in Nova (allocation candidates, request filters), and are
// checked all the same. A host that is down passes.
func (r *Request) Forced() bool {
	return (len(r.ForceHosts) > 0 || len(r.ForceNodes) > 0) && !r.CheckForced
}

// Amount is an amount of one resource class.
type Amount struct {
	Class string
	N     int64
}

// Destination restricts to a host, node or cell (uuid); empty means any. They compare exactly.
type Destination struct {
	Host               string
	Node               string
	Cell               string
	AllowCrossCellMove bool
}

// Isolation keeps a request out of aggregates that require a trait that it does not: those whose metadata has
// trait:NAME=required for a trait that is not in Traits.
type Isolation struct {
	// Traits that the request requires, sorted.
	Traits []string
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

// Group is a server group. A host's members are the consumers on it that have a claim in the group or are in Members,
// and the instances picked for it earlier in the same request. With MembersExact, picked instances only count if they
// are in Members, as in Nova.
type Group struct {
	UUID   ID
	Policy Policy
	// MaxPerHost is anti-affinity's limit; below 1 means 1.
	MaxPerHost int
	Members    []ID
	// Hosts are service hosts that the caller knows to have members. Affinity adds them to those that the cells know.
	Hosts        []string
	MembersExact bool
}

// Consumption is what one instance takes from the Nova view of a host.
type Consumption struct {
	VCPUs  int64
	RAMMB  int64
	DiskMB int64
}

// Rules are the configuration of a decision. They travel with every query, so that all cells decide alike.
type Rules struct {
	// Filters by name, in the configured order: a host counts as rejected by the first one that rejects it.
	// DefaultFilters if nil.
	Filters []string
	// Weighers, in the order in which their scores are added. A weigher that is not named does not count.
	// DefaultWeighers if nil.
	Weighers                []Weigher
	DefaultAvailabilityZone string
	// Options of filters and weighers; DefaultOptions if nil.
	Options *Options
	// Expression, unless nil, is the condition of ConfiguredExpressionFilter. It applies to the hosts that pass
	// everything else but the request's own expression; as with Nova's filters, not to forced hosts nor on a rebuild.
	Expression Expression
	// Weigh, unless nil, gives hosts that passed the raw weight of ConfiguredExpressionWeigher.
	Weigh WeighExpression
}

// Weigher is a weigher's name and its multiplier, which may be negative.
type Weigher struct {
	Name       string
	Multiplier float64
}

// The basic filters, by name. Filters that Nova has keep Nova's names. ResourceFilter, TraitFilter and
// AggregateFilter do what Nova leaves to Placement. HostFilter is the request's own restriction (ignored and forced
// hosts, destination).
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

// DefaultFilters are the filters if none are configured. HostFilter is first, and always runs.
func DefaultFilters() []string {
	return []string{
		HostFilter, ComputeFilter, ZoneFilter, AggregateFilter, TraitFilter,
		ResourceFilter, CapabilitiesFilter, ImageFilter, AntiAffinityFilter, AffinityFilter,
	}
}

// Weighers, by Nova's names.
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
