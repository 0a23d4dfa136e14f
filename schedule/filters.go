package schedule

import (
	"maps"
	"slices"
)

// AllHostsFilter passes every host.
const AllHostsFilter = "AllHostsFilter"

// filterKind is a filter's checks, and when it runs.
type filterKind struct {
	// add adds the checks to a scan. A filter that reads more of the table than the chunk and the names must set
	// scan.beyond (see FilterCache).
	add func(*scan)
	// forced: it also runs for a request that names its hosts, because it stands for Placement or for the request's own
	// restriction. Of ComputeFilter only the host's disabled and withheld states are checked then.
	forced bool
	// onRebuild: it runs when an instance is rebuilt on its host (RUN_ON_REBUILD), because it reads the image.
	onRebuild bool
}

// filters are all filters by name. A new filter needs a function in its own file and a row here.
var filters = map[string]filterKind{
	HostFilter:         {add: (*scan).hostFilter, forced: true, onRebuild: true},
	ComputeFilter:      {add: (*scan).computeFilter, forced: true},
	ZoneFilter:         {add: (*scan).zoneFilter, forced: true},
	AggregateFilter:    {add: (*scan).aggregateFilter, forced: true},
	TraitFilter:        {add: (*scan).traitFilter, forced: true},
	ResourceFilter:     {add: (*scan).resourceFilter, forced: true},
	AntiAffinityFilter: {add: (*scan).antiAffinityFilter},
	AffinityFilter:     {add: (*scan).affinityFilter},

	AllHostsFilter:       {add: func(*scan) {}},
	CapabilitiesFilter:   {add: (*scan).capabilitiesFilter},
	ImageFilter:          {add: (*scan).imageFilter, onRebuild: true},
	DifferentHostFilter:  {add: (*scan).differentHostFilter},
	SameHostFilter:       {add: (*scan).sameHostFilter},
	CIDRFilter:           {add: (*scan).cidrFilter},
	IoOpsFilter:          {add: func(s *scan) { s.below(IoOpsFilter, ioOpsColumn, s.options.MaxIOOpsPerHost) }},
	AggregateIoOpsFilter: {add: func(s *scan) { s.belowInSet(AggregateIoOpsFilter, maxIOOps, ioOpsColumn, s.options.MaxIOOpsPerHost) }},
	NumInstancesFilter:   {add: func(s *scan) { s.below(NumInstancesFilter, instancesColumn, s.options.MaxInstancesPerHost) }},
	AggregateNumInstancesFilter: {add: func(s *scan) {
		s.belowInSet(AggregateNumInstancesFilter, maxInstances, instancesColumn, s.options.MaxInstancesPerHost)
	}},
	AggregateExtraSpecsFilter:   {add: (*scan).aggregateExtraSpecsFilter},
	AggregateImageFilter:        {add: (*scan).aggregateImageFilter, onRebuild: true},
	AggregateTenantFilter:       {add: (*scan).aggregateTenantFilter},
	AggregateTypeAffinityFilter: {add: (*scan).aggregateTypeAffinityFilter},
	IsolatedHostsFilter:         {add: (*scan).isolatedHostsFilter, onRebuild: true},
	JSONFilter:                  {add: (*scan).jsonFilter},
	MetricsFilter:               {add: (*scan).metricsFilter},

	CoreFilter:          {add: func(s *scan) { s.coreFilter(CoreFilter, false) }},
	RAMFilter:           {add: func(s *scan) { s.ramFilter(RAMFilter, false) }},
	DiskFilter:          {add: func(s *scan) { s.diskFilter(DiskFilter, false) }},
	AggregateCoreFilter: {add: func(s *scan) { s.coreFilter(AggregateCoreFilter, true) }},
	AggregateRAMFilter:  {add: func(s *scan) { s.ramFilter(AggregateRAMFilter, true) }},
	AggregateDiskFilter: {add: func(s *scan) { s.diskFilter(AggregateDiskFilter, true) }},
	ExactCoreFilter:     {add: (*scan).exactCoreFilter},
	ExactRAMFilter:      {add: (*scan).exactRAMFilter},
	ExactDiskFilter:     {add: (*scan).exactDiskFilter},
	RetryFilter:         {add: (*scan).retryFilter},
	TypeAffinityFilter:  {add: (*scan).typeAffinityFilter},

	TreeFilter: {add: func(s *scan) { s.nested = s.nested || s.q.Request.Tree.groups() }, forced: true},

	ConfiguredExpressionFilter: {add: func(s *scan) { s.configured = s.q.Rules.Expression != nil }},
	ExpressionFilter:           {add: func(s *scan) { s.expression = s.q.Request.Expression != nil }, forced: true},

	NUMAFilter: {add: (*scan).numaFilter},
	PCIFilter:  {add: (*scan).pciFilter},
}

// Filters lists the names of all filters, sorted.
func Filters() []string { return slices.Sorted(maps.Keys(filters)) }
