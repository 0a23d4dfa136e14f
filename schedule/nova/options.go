package nova

import "cellgate/schedule"

// Options are the Nova options that the translation of a request reads, named as there, in the section scheduler
// unless another is named. The zero value has Nova's defaults.
type Options struct {
	// LimitTenants is limit_tenants_to_placement_aggregate.
	LimitTenants bool
	// TenantsRequireAggregate is placement_aggregate_required_for_tenants.
	TenantsRequireAggregate bool
	// ImageTypeSupport is query_placement_for_image_type_support.
	ImageTypeSupport bool
	// IsolateAggregates is enable_isolated_aggregate_filtering.
	IsolateAggregates bool
	// ImageMetadata is image_metadata_prefilter.
	ImageMetadata bool
	// RoutedNetworks is query_placement_for_routed_network_aggregates.
	RoutedNetworks bool
	// Segments are the aggregates of the segments of a request's ports and networks. A host must be in an aggregate
	// of each set. Nil: Neutron was not asked. Each request has its own.
	Segments [][]string
	// PCIInPlacement is pci_in_placement, of the section filter_scheduler.
	PCIInPlacement bool
	// NoPCPUFallback is disable_fallback_pcpu_query, of the section workarounds.
	NoPCPUFallback bool
	// Release is the major version of the replaced Nova; 0 means the newest. Keys, request filters and traits that it
	// does not have are not used.
	Release int
	// Strict is strict_nova: apparent defects of Nova are reproduced too.
	Strict bool
	// Aliases are [pci] alias, for forms in which Nova has not resolved aliases.
	Aliases *Aliases
}

// Compile makes the request for the core. ignored are the paths of keys that have no effect, because they do not
// affect the choice of host. The error is InvalidRequest with every field that is wrong or asks for something
// unsupported.
func (o *Options) Compile(s Spec) (r schedule.Request, ignored []string, err error) {
	f := findings{options: o}
	r = f.compile(&s)
	if err := f.err(); err != nil {
		return schedule.Request{}, nil, err
	}
	return r, f.ignored, nil
}

// newestRelease is the newest known release.
const newestRelease = 34

// has reports whether the release is since or later.
func (o *Options) has(since int) bool { return o.Release == 0 || o.Release >= since }

// knows reports whether the release has the extra spec or image property.
func (o *Options) knows(key string) bool { return o.has(since[key]) }
