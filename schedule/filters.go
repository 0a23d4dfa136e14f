package schedule

import "slices"

// AllHostsFilter passes every host.
const AllHostsFilter = "AllHostsFilter"

// filters are all filters by name. Each adds its checks to a scan. A new filter needs a function in its own file and
// a row here. A filter that reads more of the table than the chunk and the names must set scan.beyond (see
// FilterCache).
var filters = map[string]func(*scan){
	HostFilter:         (*scan).hostFilter,
	ComputeFilter:      (*scan).computeFilter,
	ZoneFilter:         (*scan).zoneFilter,
	AggregateFilter:    (*scan).aggregateFilter,
	TraitFilter:        (*scan).traitFilter,
	ResourceFilter:     (*scan).resourceFilter,
	AntiAffinityFilter: (*scan).antiAffinityFilter,
	AffinityFilter:     (*scan).affinityFilter,

	AllHostsFilter:              func(*scan) {},
	CapabilitiesFilter:          (*scan).capabilitiesFilter,
	ImageFilter:                 (*scan).imageFilter,
	DifferentHostFilter:         (*scan).differentHostFilter,
	SameHostFilter:              (*scan).sameHostFilter,
	CIDRFilter:                  (*scan).cidrFilter,
	IoOpsFilter:                 (*scan).ioOpsFilter,
	AggregateIoOpsFilter:        (*scan).aggregateIoOpsFilter,
	NumInstancesFilter:          (*scan).numInstancesFilter,
	AggregateNumInstancesFilter: (*scan).aggregateNumInstancesFilter,
	AggregateExtraSpecsFilter:   (*scan).aggregateExtraSpecsFilter,
	AggregateImageFilter:        (*scan).aggregateImageFilter,
	AggregateTenantFilter:       (*scan).aggregateTenantFilter,
	AggregateTypeAffinityFilter: (*scan).aggregateTypeAffinityFilter,
	IsolatedHostsFilter:         (*scan).isolatedHostsFilter,
	JSONFilter:                  (*scan).jsonFilter,
	MetricsFilter:               (*scan).metricsFilter,

	CoreFilter:          func(s *scan) { s.coreFilter(CoreFilter, false) },
	RAMFilter:           func(s *scan) { s.ramFilter(RAMFilter, false) },
	DiskFilter:          func(s *scan) { s.diskFilter(DiskFilter, false) },
	AggregateCoreFilter: func(s *scan) { s.coreFilter(AggregateCoreFilter, true) },
	AggregateRAMFilter:  func(s *scan) { s.ramFilter(AggregateRAMFilter, true) },
	AggregateDiskFilter: func(s *scan) { s.diskFilter(AggregateDiskFilter, true) },
	ExactCoreFilter:     (*scan).exactCoreFilter,
	ExactRAMFilter:      (*scan).exactRAMFilter,
	ExactDiskFilter:     (*scan).exactDiskFilter,
	RetryFilter:         (*scan).retryFilter,
	TypeAffinityFilter:  (*scan).typeAffinityFilter,

	TreeFilter:   func(s *scan) { s.nested = s.nested || s.q.Request.Tree.groups() },
	PlacesFilter: func(*scan) {},

	ConfiguredExpressionFilter: func(s *scan) { s.configured = s.q.Rules.Expression != nil },
	ExpressionFilter:           func(s *scan) { s.expression = s.q.Request.Expression != nil },

	NUMAFilter: (*scan).numaFilter,
	PCIFilter:  (*scan).pciFilter,
}

// Filters lists the names of all filters, sorted.
func Filters() []string {
	names := make([]string, 0, len(filters))
	for n := range filters {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// placements are the filters that also run for a request that names its hosts: they stand for Placement and for the
// request's own restriction. Of ComputeFilter only the host's disabled and withheld states are checked then.
var placements = map[string]bool{
	HostFilter: true, ComputeFilter: true, ZoneFilter: true, AggregateFilter: true, TraitFilter: true, ResourceFilter: true,
	TreeFilter: true, PlacesFilter: true, ExpressionFilter: true,
}

// onRebuild are the filters that run when an instance is rebuilt on its host (RUN_ON_REBUILD): those that read the
// image.
var onRebuild = map[string]bool{
	HostFilter: true, ImageFilter: true, AggregateImageFilter: true, IsolatedHostsFilter: true,
}
