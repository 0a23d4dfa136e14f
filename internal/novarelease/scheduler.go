package novarelease

// weighers has the first release of each weigher; older ones are in all releases.
var weighers = map[string]Release{
	"PCIWeigher":               16,
	"BuildFailureWeigher":      18,
	"CPUWeigher":               18,
	"CrossCellWeigher":         Ussuri,
	"HypervisorVersionWeigher": Bobcat,
	"NumInstancesWeigher":      Bobcat,
	"ImagePropertiesWeigher":   Epoxy,
}

// HasWeigher reports whether the release's all_weighers include a weigher.
func (r Release) HasWeigher(name string) bool { return r.Has(weighers[name]) }

// WeigherSince is the first release with a weigher; 0 if the oldest has it.
func WeigherSince(name string) Release { return weighers[name] }

// DefaultFilters are the release's default of [filter_scheduler] enabled_filters.
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

// ReadsOldNames reports whether Nova still reads the scheduler's options under their names in [DEFAULT]
// from before Ocata.
func (r Release) ReadsOldNames() bool { return !r.Has(Xena) }

// ExactTenantKey reports whether AggregateMultiTenancyIsolation reads only the key filter_tenant_id,
// and no other key that begins with it.
func (r Release) ExactTenantKey() bool { return !r.Has(Dalmatian) }
