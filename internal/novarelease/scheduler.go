package novarelease

// weighers have the release that each came with; older ones are in all.
var weighers = map[string]Release{
	"PCIWeigher":               16,
	"BuildFailureWeigher":      18,
	"CPUWeigher":               18,
	"CrossCellWeigher":         Ussuri,
	"HypervisorVersionWeigher": Bobcat,
	"NumInstancesWeigher":      Bobcat,
	"ImagePropertiesWeigher":   Epoxy,
}

// HasWeigher reports whether all_weighers has it.
func (r Release) HasWeigher(name string) bool { return r.Has(weighers[name]) }

// WeigherSince is the release that a weigher came with; 0: the oldest has it.
func WeigherSince(name string) Release { return weighers[name] }

// DefaultFilters are those of [filter_scheduler] enabled_filters when no file sets it.
func (r Release) DefaultFilters() []string {
	common := []string{
		"ComputeFilter", "ComputeCapabilitiesFilter", "ImagePropertiesFilter",
		"ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter",
	}
	switch {
	case r.Has(Xena):
		return common
	case r.Has(Train):
		return append([]string{"AvailabilityZoneFilter"}, common...)
	case r.Has(oldest + 1):
		return append([]string{"RetryFilter", "AvailabilityZoneFilter"}, common...)
	}
	return append([]string{"RetryFilter", "AvailabilityZoneFilter", "RamFilter", "DiskFilter"}, common...)
}

// ReadsOldNames reports whether options of the scheduler count under the names that
// they had in [DEFAULT] before Ocata.
func (r Release) ReadsOldNames() bool { return !r.Has(Xena) }

// ExactTenantKey reports whether AggregateMultiTenancyIsolation reads filter_tenant_id
// alone, and no other key that begins so.
func (r Release) ExactTenantKey() bool { return !r.Has(Dalmatian) }
