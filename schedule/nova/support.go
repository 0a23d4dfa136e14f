package nova

import (
	"slices"
	"strings"

	"cellgate/internal/python"
	"cellgate/schedule"
)

// care says what is done with a key that a request may carry.
type care int

const (
	// ignored: bears on the guest or the hypervisor, not on the choice of host
	// (or only under options off by default in Nova). Reported.
	ignored care = iota
	// refused: asks for hosts of some kind, which is not understood yet.
	refused
	// honoured elsewhere in the package.
	honoured
	// resolved: Nova's API makes numa_topology or pci_requests of it, and
	// findings.resolve does in a form that has no such fields.
	resolved
)

// rule is a row of the tables below. A key that ends in "*" stands for every key
// with that beginning. Values that ask for nothing pass where the key is refused;
// they compare without case.
type rule struct {
	key      string
	care     care
	harmless []string
	// makes is what a resolved key is for alone: without one it is ignored.
	makes part
	why   string
	// since is the release whose scheduler first knows the key, where an older one that is
	// replaced may not (Options.Release): there it is ignored, as by Nova.
	since int
	// filter is the one that reads the hint; empty for hints that are read before filters run.
	filter string
}

// part of a request that keys make.
type part int

const (
	_ part = iota
	topology
	devices
)

var (
	falseTexts = []string{"", "false", "f", "no", "n", "off", "0"}
	sharedCPUs = []string{"", "shared"}
	unknownKey = "the key is not known"
	encryption = "models of memory encryption are not supported"
)

// extraSpecs: the first row that matches decides. Sources:
// nova/api/validation/extra_specs, nova/scheduler/{utils,request_filter}.py,
// nova/scheduler/filters, nova/virt/hardware.py.
var extraSpecs = []rule{
	{key: "resources:*", care: honoured},
	{key: "trait:*", care: honoured},
	{key: "resources*", care: honoured},
	{key: "trait*", care: honoured},
	{key: "group_policy", care: honoured},
	{key: "hide_hypervisor_id", care: ignored},
	{key: "hw:cpu_policy", care: resolved, harmless: sharedCPUs},
	{key: "hw:cpu_thread_policy", care: resolved},
	{key: "hw:cpu_dedicated_mask", care: resolved},
	{key: "hw:cpu_realtime", care: resolved, harmless: falseTexts},
	{key: "hw:cpu_realtime_mask", care: resolved},
	{key: "hw:emulator_threads_policy", care: resolved},
	{key: "hw:mem_page_size", care: resolved, makes: topology},
	{key: "hw:locked_memory", care: resolved, harmless: falseTexts, makes: topology},
	{key: "hw:numa_*", care: resolved, makes: topology},
	{key: "hw:pci_numa_affinity_policy", care: honoured},
	{key: "hw:mem_encryption", care: honoured, since: 20},
	{key: "hw:mem_encryption_model", care: refused, why: encryption, since: 32},
	{key: "hw:ephemeral_encryption", care: honoured, since: 26},
	{key: "hw:ephemeral_encryption_format", care: honoured, since: 26},
	{key: "hw:tpm_version", care: honoured, since: 22},
	{key: "hw:tpm_model", care: honoured, since: 22},
	{key: "hw:tpm_secret_security", care: honoured, since: 33},
	{key: "hw:tpm_*", care: refused, why: unknownKey},
	{key: "hw:pmem", care: resolved, since: 20},
	// Of the vIOMMU models Nova's scheduler reads the image's alone.
	{key: "hw:viommu_model", care: ignored},
	{key: "hw:virtio_packed_ring", care: honoured, since: 29},
	{key: "hw:sound_model", care: honoured, since: 32},
	{key: "hw:maxphysaddr_bits", care: honoured, since: 29},
	{key: "hw:maxphysaddr_mode", care: honoured, since: 29},
	{key: "hw:maxphysaddr_*", care: refused, why: unknownKey},
	{key: "hw:cpu_*", care: ignored},
	{key: "hw:max_cpu_cores", care: ignored},
	{key: "hw:max_cpu_sockets", care: ignored},
	{key: "hw:max_cpu_threads", care: ignored},
	{key: "hw:boot_menu", care: ignored},
	{key: "hw:hide_hypervisor_id", care: ignored},
	{key: "hw:pmu", care: ignored},
	{key: "hw:redirected_usb_ports", care: ignored},
	{key: "hw:serial_port_count", care: ignored},
	{key: "hw:usb_model", care: ignored},
	{key: "hw:vif_multiqueue_enabled", care: ignored},
	{key: "hw:watchdog_action", care: ignored},
	{key: "hw:*", care: refused, why: unknownKey},
	{key: "os:secure_boot", care: honoured, since: 23},
	{key: "accel:device_profile", care: honoured},
	{key: "accel:*", care: refused, why: unknownKey},
	{key: "pci_passthrough:*", care: resolved, makes: devices},
	{key: "capabilities:*", care: honoured},
	{key: "aggregate_instance_extra_specs:*", care: honoured},
	// Nova's filters read no other scope.
	{key: "quota:*", care: ignored},
	{key: "hw_rng:*", care: ignored},
	{key: "hw_video:*", care: ignored},
	{key: "vmware:*", care: ignored},
	{key: "*:*", care: ignored},
	// Without a scope both ComputeCapabilitiesFilter and
	// AggregateInstanceExtraSpecsFilter read the key.
	{key: "*", care: honoured},
}

// imageProperties, by the names of ImageMetaProps (nova/objects/image_meta.py).
var imageProperties = []rule{
	{key: "trait:*", care: honoured},
	{key: "hw_architecture", care: honoured},
	{key: "architecture", care: honoured},
	// transform_image_metadata reads these when it is on: see imageMetadata.
	{key: "hw_emulation_architecture", care: ignored},
	{key: "hw_viommu_model", care: ignored},
	{key: "hw_vm_mode", care: honoured},
	{key: "vm_mode", care: honoured},
	{key: "img_hv_type", care: honoured},
	{key: "hypervisor_type", care: honoured},
	{key: "img_hv_requested_version", care: honoured},
	{key: "hypervisor_version_requires", care: honoured},
	{key: "hw_cpu_policy", care: resolved, harmless: sharedCPUs},
	{key: "hw_cpu_thread_policy", care: resolved},
	{key: "hw_cpu_realtime_mask", care: resolved},
	{key: "hw_mem_page_size", care: resolved, makes: topology},
	{key: "hw_locked_memory", care: resolved, harmless: falseTexts, makes: topology},
	{key: "hw_numa_*", care: resolved, makes: topology},
	{key: "hw_pci_numa_affinity_policy", care: honoured},
	{key: "hw_mem_encryption", care: honoured, since: 20},
	{key: "hw_mem_encryption_model", care: refused, why: encryption, since: 32},
	{key: "hw_ephemeral_encryption", care: honoured, since: 26},
	{key: "hw_ephemeral_encryption_format", care: honoured, since: 26},
	{key: "hw_tpm_version", care: honoured, since: 22},
	{key: "hw_tpm_model", care: honoured, since: 22},
	// Only the flavor's is read.
	{key: "hw_tpm_secret_security", care: ignored},
	{key: "hw_virtio_packed_ring", care: honoured, since: 29},
	{key: "hw_sound_model", care: honoured, since: 32},
	{key: "hw_maxphysaddr_bits", care: honoured, since: 29},
	{key: "hw_maxphysaddr_mode", care: honoured, since: 29},
	{key: "hw_firmware_stateless", care: honoured, since: 30},
	{key: "os_secure_boot", care: honoured},
	// The rest is read by the hypervisor, or by filters that are off by default.
	{key: "*", care: ignored},
}

// schedulerHints, by name. A hint without values asks for nothing.
var schedulerHints = []rule{
	{key: checkTypeHint, care: honoured},
	{key: groupHint, care: honoured},
	{key: "same_host", care: honoured, filter: schedule.SameHostFilter},
	{key: "different_host", care: honoured, filter: schedule.DifferentHostFilter},
	{key: "build_near_host_ip", care: honoured, filter: schedule.CIDRFilter},
	{key: "cidr", care: honoured, filter: schedule.CIDRFilter},
	{key: queryHint, care: honoured, filter: schedule.JSONFilter},
	{key: ExpressionHint, care: honoured},
	{key: WeighHint, care: honoured},
	{key: StrategyHint, care: honoured},
	// reservation and other names belong to filters outside Nova.
	{key: "*", care: ignored},
}

const (
	checkTypeHint = "_nova_check_type"
	groupHint     = "group"
	queryHint     = "query"

	// cellgate's own hints: a request's Expression as text, its Weigh, and the name of a strategy of the weighers.
	ExpressionHint = "cellgate:filter"
	WeighHint      = "cellgate:weigh"
	StrategyHint   = "cellgate:strategy"
)

// comparedBy are the filters that compare an extra spec with hosts or aggregates, by its scope.
func comparedBy(key string) []string {
	scope, _, scoped := strings.Cut(key, ":")
	switch {
	case !scoped:
		return bothComparing
	case scope == "capabilities", key == "hw:maxphysaddr_bits":
		return bothComparing[:1]
	case scope == "aggregate_instance_extra_specs":
		return bothComparing[1:]
	}
	return nil
}

var bothComparing = []string{schedule.CapabilitiesFilter, schedule.AggregateExtraSpecsFilter}

// since has the releases that brought keys, of the rows that name one.
var since = func() map[string]int {
	out := map[string]int{}
	for _, rules := range [][]rule{extraSpecs, imageProperties} {
		for _, r := range rules {
			if r.since > 0 {
				out[r.key] = r.since
			}
		}
	}
	return out
}()

// look finds the row that decides about a key.
func look(rules []rule, key string) rule {
	for _, r := range rules {
		if r.matches(key) {
			return r
		}
	}
	return rule{key: key, care: refused, why: unknownKey}
}

func (r rule) matches(key string) bool {
	if r.key == "*:*" {
		return strings.Contains(key, ":")
	}
	prefix, open := strings.CutSuffix(r.key, "*")
	if open {
		return strings.HasPrefix(key, prefix)
	}
	return key == r.key
}

func (r rule) passes(value string) bool {
	for _, h := range r.harmless {
		if strings.EqualFold(h, python.Strip(value)) {
			return true
		}
	}
	return false
}

// triage gives the key to its row: reports it as ignored, refuses it, or returns
// true when the caller is to honour it.
func (f *findings) triage(rules []rule, path, key, value string) bool {
	r := look(rules, key)
	if !f.options.has(r.since) {
		f.ignore(path)
		return false
	}
	switch r.care {
	case honoured:
		return true
	case ignored:
		f.ignore(path)
	case resolved:
		if r.passes(value) {
			f.ignore(path)
			return false
		}
		if r.makes == topology && !f.numa || r.makes == devices && !f.pci {
			f.ignore(path) // Nothing was made of it, so it asks for nothing.
		}
		return true
	case refused:
		if r.passes(value) || r.why == unknownKey && f.options.Strict {
			f.ignore(path)
		} else {
			f.invalid(path, "not supported: %s", r.why)
		}
	}
	return false
}

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
