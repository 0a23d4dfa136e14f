package nova

import (
	"slices"
	"strings"

	"cellgate/schedule"
)

// Unread gives the paths of what the request has and no filter of the rules
// reads: in Nova, too, it then has no effect. path begins them. An extra spec
// without a scope counts as read by ComputeCapabilitiesFilter when every host has
// an attribute of its name; hosts that have it among their stats are compared all
// the same.
func Unread(r *schedule.Request, rules *schedule.Rules, path string) []string {
	if r.Nova == nil {
		return nil
	}
	filters := rules.Filters
	if filters == nil {
		filters = schedule.DefaultFilters()
	}
	runs := func(filter string) bool { return slices.Contains(filters, filter) }
	var out []string
	for _, spec := range r.Nova.Flavor.ExtraSpecs {
		read := slices.ContainsFunc(comparedBy(spec.Key), func(filter string) bool {
			isScoped := strings.Contains(spec.Key, ":")
			return runs(filter) && (filter != schedule.CapabilitiesFilter || isScoped || schedule.HostAttribute(spec.Key))
		})
		if !read {
			out = append(out, at(path+".flavor.extra_specs", spec.Key))
		}
	}
	for _, h := range r.Nova.Hints {
		if !runs(look(schedulerHints, h.Name).filter) {
			out = append(out, at(path+".scheduler_hints", h.Name))
		}
	}
	if r.Nova.NUMA != nil && !runs(schedule.NUMAFilter) {
		out = append(out, path+".numa_topology")
	}
	if len(r.Nova.PCI) > 0 && !runs(schedule.PCIFilter) && (r.Nova.NUMA == nil || !runs(schedule.NUMAFilter)) {
		out = append(out, path+".pci_requests")
	}
	return out
}
