package nova

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// Limits of what NUMATopologyFilter and PciPassthroughFilter read of a request.
const (
	maxGuestCells  = 16
	maxGuestCPUs   = 4096
	maxPCIRequests = 64
	maxPhysnets    = 64
	maxPage        = 1 << 24 // KiB
)

// numaTopology reads the InstanceNUMATopology that Nova's API made from the flavor and the image. A topology without
// cells counts as none.
func (s *Spec) numaTopology(spec *object) {
	o := spec.child("numa_topology", "InstanceNUMATopology")
	if o == nil {
		return
	}
	cells := o.list("cells")
	if len(cells) > maxGuestCells {
		o.invalid(o.at("cells"), "has %d cells, the most is %d", len(cells), maxGuestCells)
		return
	}
	n := &hardware.InstanceNUMA{}
	switch p := o.text("emulator_threads_policy"); p {
	case "", "share":
	case "isolate":
		n.IsolateEmulator = true
	default:
		o.invalid(o.at("emulator_threads_policy"), "%q is not a policy", shorten(p))
	}
	for i, e := range cells {
		if c, ok := o.guestCell(fmt.Sprintf("%s[%d]", o.at("cells"), i), e); ok {
			n.Cells = append(n.Cells, c)
		}
	}
	o.known("id", "instance_uuid")
	o.rest()
	if len(n.Cells) > 0 {
		s.NUMA = n
	}
}

func (o *object) guestCell(path string, v any) (c hardware.InstanceCell, ok bool) {
	cell := o.object(path, v, "InstanceNUMACell")
	if cell == nil {
		return c, false
	}
	cell.required("id", "cpuset", "memory")
	c = hardware.InstanceCell{
		CPUs: cell.cpus("cpuset"), Dedicated: cell.cpus("pcpuset"), MemoryMB: cell.amount("memory"),
		Policy:  cell.oneOf("cpu_policy", hardware.CPUShared, hardware.CPUDedicated, hardware.CPUMixed),
		Threads: cell.oneOf("cpu_thread_policy", hardware.ThreadPrefer, hardware.ThreadIsolate, hardware.ThreadRequire),
	}
	// Before version 1.5 dedicated CPUs were in cpuset.
	if c.Policy == hardware.CPUDedicated && c.CPUs > 0 {
		c.CPUs, c.Dedicated = 0, c.CPUs
	}
	c.ID = cell.integer("id", -1, maxGuestCPUs)
	c.PageSize = cell.integer("pagesize", hardware.PageAny, maxPage)
	// What an earlier host assigned does not affect where the guest fits next.
	cell.known("cpuset_reserved", "cpu_topology", "cpu_pinning_raw")
	cell.rest()
	return c, true
}

// cpus counts the CPUs in a set.
func (o *object) cpus(key string) int {
	var seen []int64
	for i, e := range o.list(key) {
		n, problem := integer(e)
		if problem == "" && (n < 0 || n >= maxGuestCPUs) {
			problem = fmt.Sprintf("must be 0 to %d, is %d", maxGuestCPUs-1, n)
		}
		if problem != "" {
			o.invalid(fmt.Sprintf("%s[%d]", o.at(key), i), "%s", problem)
			return 0
		}
		seen = append(seen, n)
	}
	slices.Sort(seen)
	return len(slices.Compact(seen))
}

// integer reads a number between least and most; 0 if there is none.
func (o *object) integer(key string, least, most int64) int64 {
	v := o.get(key)
	if v == nil {
		return 0
	}
	n, problem := integer(v)
	if problem == "" && (n < least || n > most) {
		problem = fmt.Sprintf("must be %d to %d, is %d", least, most, n)
	}
	if problem != "" {
		o.invalid(o.at(key), "%s", problem)
	}
	return n
}

// oneOf reads one of the allowed values; empty if there is none.
func (o *object) oneOf(key string, allowed ...string) string {
	w := o.text(key)
	if w != "" && !slices.Contains(allowed, w) {
		o.invalid(o.at(key), "must be one of %s, not %q", strings.Join(allowed, ", "), shorten(w))
		return ""
	}
	return w
}

// pciRequests reads the InstancePCIRequests that Nova made from aliases and ports.
func (s *Spec) pciRequests(spec *object) {
	o := spec.child("pci_requests", "InstancePCIRequests")
	requests := o.list("requests")
	if len(requests) > maxPCIRequests {
		o.invalid(o.at("requests"), "has %d requests, the most is %d", len(requests), maxPCIRequests)
		return
	}
	for i, e := range requests {
		r := o.object(fmt.Sprintf("%s[%d]", o.at("requests"), i), e, "InstancePCIRequest")
		if r == nil {
			continue
		}
		r.required("count", "spec")
		n := r.amount("count")
		if n < 1 {
			r.invalid(r.at("count"), "must be at least 1, is %d", n)
		}
		specs, ofPlacement := r.pciSpecs("spec")
		s.PCI = append(s.PCI, hardware.PCIRequest{
			Count: n, Specs: specs,
			Policy: r.oneOf("numa_policy", hardware.PCIRequired, hardware.PCIPreferred, hardware.PCILegacy, hardware.PCISocket),
		})
		if r.get("alias_name") != nil { // As in Nova, a request without alias_name is of a port.
			s.aliased = append(s.aliased, aliasRequest{path: r.path, name: r.text("alias_name"), index: len(s.PCI) - 1, id: r.text("request_id"), specs: ofPlacement})
		}
		r.known("is_new", "request_id", "requester_id")
		r.rest()
	}
	o.known("instance_uuid")
	o.rest()
}

// pciSpecs reads the properties that a device must have, and those for Placement. Nova's filters ignore
// resource_class, traits and rp_uuids, the providers of an earlier claim.
func (o *object) pciSpecs(key string) (out []hardware.PCISpec, ofPlacement []placementSpec) {
	specs := o.list(key)
	if len(specs) > maxPairs {
		o.invalid(o.at(key), "has %d specs, the most is %d", len(specs), maxPairs)
		return nil, nil
	}
	for i, e := range specs {
		path := fmt.Sprintf("%s[%d]", o.at(key), i)
		m, ok := e.(map[string]any)
		if !ok || len(m) > maxPairs {
			o.invalid(path, "must be an object of at most %d keys", maxPairs)
			continue
		}
		spec, p := hardware.PCISpec{}, placementSpec{}
		for _, k := range sortedKeys(m) {
			text, ok := m[k].(string)
			if m[k] != nil && !ok {
				o.invalid(at(path, k), "must be a string, not %s", kind(m[k]))
			}
			switch k {
			case "resource_class":
				p.class = text
				continue
			case "traits":
				p.traits = text
				continue
			case "rp_uuids":
				continue
			case "vendor_id":
				p.vendor = text
			case "product_id":
				p.product = text
			}
			spec = append(spec, hardware.PCIProperty{Key: k, Value: text, None: m[k] == nil})
		}
		out, ofPlacement = append(out, spec), append(ofPlacement, p)
	}
	return out, ofPlacement
}

// networks reads NetworkMetadata.
func (s *Spec) networks(spec *object) {
	o := spec.child("network_metadata", "NetworkMetadata")
	if o == nil {
		return
	}
	n := &hardware.NetworkNeeds{Physnets: o.texts("physnets"), Tunneled: o.flag("tunneled")}
	if len(n.Physnets) > maxPhysnets {
		o.invalid(o.at("physnets"), "has %d, the most is %d", len(n.Physnets), maxPhysnets)
	}
	slices.Sort(n.Physnets) // It is a set.
	n.Physnets = slices.Compact(n.Physnets)
	o.rest()
	if s.Networks = n; len(n.Physnets) == 0 && !n.Tunneled {
		s.Networks = nil
	}
}

// policy gives the extra spec and the image property of the same meaning.
func (s *Spec) policy(name string) (flavor, image string) {
	return s.Flavor.ExtraSpecs["hw:"+name], s.ImageProperties["hw_"+name]
}

// has reports whether the flavor or the image has a policy.
func (s *Spec) has(name, policy string) bool {
	flavor, image := s.policy(name)
	return flavor == policy || image == policy
}

// numa copies the NUMA topology and devices that Nova made into n. Cells fit by the rules of the options' release.
func (s *Spec) numa(n *schedule.NovaRequest, o *Options) {
	n.PCI = s.PCI
	if s.NUMA != nil { // Networks only matter to NUMA cells.
		guest := *s.NUMA
		guest.Release = int32(cmp.Or(o.Release, newestRelease))
		n.NUMA, n.Networks = &guest, s.Networks
	}
	n.NeedThreads = s.has("cpu_policy", hardware.CPUDedicated) && s.has("cpu_thread_policy", hardware.ThreadRequire)
}
