package novaconf

import (
	"slices"
	"strings"
)

// The packages of Nova's own filters and weighers.
const (
	filterPackage  = "nova.scheduler.filters."
	weigherPackage = "nova.scheduler.weights."
	allFilters     = filterPackage + "all_filters"
	allWeighers    = weigherPackage + "all_weighers"
)

// always are cellgate's filters for the checks that Nova leaves to Placement or makes before its
// filters run. They run first, whichever filters are enabled.
var always = []string{"HostFilter", "AvailabilityZoneFilter", "AggregateFilter", "TraitFilter", "ResourceFilter"}

// needed are filters that cellgate runs even when they are not enabled, and why.
var needed = []struct{ name, why string }{
	{"ComputeFilter", "Nova without it would still not use disabled hosts (a pre-filter); here hosts that are down are not used either"},
	{"ServerGroupAntiAffinityFilter", "Nova without it refuses groups with the policy anti-affinity"},
	{"ServerGroupAffinityFilter", "Nova without it refuses groups with the policy affinity"},
}

// RunsAnyway reports whether cellgate runs a filter even if it is not enabled.
func RunsAnyway(filter string) bool {
	return slices.Contains(always, filter) || slices.ContainsFunc(needed, func(n struct{ name, why string }) bool { return n.name == filter })
}

// ofNova are the filters of some release of Nova: redundant says why one can be deleted, gone why it no
// longer exists.
var ofNova = map[string]struct{ redundant, gone string }{
	"AllHostsFilter":                    {redundant: "it rejects nothing"},
	"ComputeFilter":                     {},
	"ComputeCapabilitiesFilter":         {},
	"ImagePropertiesFilter":             {},
	"ServerGroupAntiAffinityFilter":     {},
	"ServerGroupAffinityFilter":         {},
	"DifferentHostFilter":               {},
	"SameHostFilter":                    {},
	"SimpleCIDRAffinityFilter":          {},
	"NUMATopologyFilter":                {},
	"PciPassthroughFilter":              {},
	"IoOpsFilter":                       {},
	"AggregateIoOpsFilter":              {},
	"NumInstancesFilter":                {},
	"AggregateNumInstancesFilter":       {},
	"AggregateInstanceExtraSpecsFilter": {},
	"AggregateImagePropertiesIsolation": {},
	"AggregateMultiTenancyIsolation":    {},
	"AggregateTypeAffinityFilter":       {},
	"IsolatedHostsFilter":               {},
	"JsonFilter":                        {},
	"MetricsFilter":                     {},

	"AvailabilityZoneFilter": {redundant: "cellgate's AvailabilityZoneFilter always runs (in Nova a pre-filter has done it since 18.0.0)"},
	"CoreFilter":             {redundant: "ResourceFilter(VCPU) checks the inventory, with its allocation ratio; and CoreFilter may reject hosts that it accepts"},
	"RamFilter":              {redundant: "ResourceFilter(MEMORY_MB) checks the inventory, with its allocation ratio"},
	"DiskFilter":             {redundant: "ResourceFilter(DISK_GB) checks the inventory, with its allocation ratio"},
	"AggregateCoreFilter":    {redundant: "ResourceFilter(VCPU) checks the inventory; set the ratio of an aggregate's hosts in their inventories"},
	"AggregateRamFilter":     {redundant: "ResourceFilter(MEMORY_MB) checks the inventory; set the ratio of an aggregate's hosts in their inventories"},
	"AggregateDiskFilter":    {redundant: "ResourceFilter(DISK_GB) checks the inventory; set the ratio of an aggregate's hosts in their inventories"},
	"RetryFilter":            {redundant: "a build that failed goes on to its alternates, which are other hosts"},
	"ExactCoreFilter":        {gone: "bare metal is asked for by a custom resource class since Nova 16.0.0"},
	"ExactRamFilter":         {gone: "bare metal is asked for by a custom resource class since Nova 16.0.0"},
	"ExactDiskFilter":        {gone: "bare metal is asked for by a custom resource class since Nova 16.0.0"},
	"TypeAffinityFilter":     {gone: "Nova removed it in 23.0.0; AggregateTypeAffinityFilter goes by aggregates"},
	"TrustedFilter":          {gone: "Nova removed it in 16.0.0; require a trait of trusted hosts instead"},
}

// weighers are Nova's, in the order in which their scores are added.
var weighers = []string{
	"RAMWeigher", "CPUWeigher", "DiskWeigher", "IoOpsWeigher", "ServerGroupSoftAffinityWeigher",
	"ServerGroupSoftAntiAffinityWeigher", "BuildFailureWeigher", "CrossCellWeigher", "PCIWeigher",
	"HypervisorVersionWeigher", "NumInstancesWeigher", "MetricsWeigher", "ImagePropertiesWeigher",
}

// className returns the class of a name, or of a path in Nova's package; false for any other path.
func className(name, pkg string) (string, bool) {
	dot := strings.LastIndexByte(name, '.')
	return name[dot+1:], dot < 0 || strings.HasPrefix(name, pkg)
}

// architectures are the names that Nova accepts (nova/objects/fields.py).
var architectures = []string{
	"alpha", "armv6", "armv7l", "armv7b", "aarch64", "cris", "i686", "ia64", "lm32", "m68k", "microblaze", "microblazeel",
	"mips", "mipsel", "mips64", "mips64el", "openrisc", "parisc", "parisc64", "ppc", "ppcle", "ppc64", "ppc64le", "ppcemb",
	"s390", "s390x", "sh4", "sh4eb", "sparc", "sparc64", "unicore32", "x86_64", "xtensa", "xtensaeb",
}
