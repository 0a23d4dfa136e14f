package schedule

import (
	"math"
	"slices"
	"strings"

	"cellgate/schedule/hardware"
)

// miss makes the Miss of a condition that a host does not meet.
func (r *Request) miss(filter, detail string, host *row) Miss {
	m := Miss{Filter: filter, Detail: detail}
	if filter == ResourceFilter {
		if m.Asked = amountOf(r.Resources, detail); m.Asked > 0 {
			m.Most, m.MostWhenEmpty = host.most(detail, m.Asked, r.Tree != nil)
			m.Bound, m.BoundAt = host.boundOf(detail, m.Asked, r.Tree != nil)
		} else if s, ok := r.scaleOf("PCPU"); ok && s.fallback != "" && detail == s.class+"|"+s.fallback {
			m.Asked = s.asked
			m.Most, m.MostWhenEmpty = host.most(s.class, s.asked, r.Tree != nil)
			now, empty := host.most(s.fallback, s.asked, r.Tree != nil)
			m.Most, m.MostWhenEmpty = max(m.Most, now), max(m.MostWhenEmpty, empty)
		}
	}
	m.Changeable = r.canRelax(&m)
	return m
}

// most is the greatest amount of a class, up to asked, that an instance gets on the host, now and when it is empty: of
// the root or, with children, of any one provider. 0 if it gets none.
func (r *row) most(class string, asked int64, children bool) (now, empty int64) {
	for x, used := range r.inventories(class, children) {
		now, empty = max(now, x.upTo(asked, x.Capacity-used)), max(empty, x.upTo(asked, x.Capacity))
	}
	return now, empty
}

// upTo is the greatest amount up to asked that fits if that much is free; 0 for none.
func (res *Resource) upTo(asked, free int64) int64 {
	n := max(0, min(free, res.MaxUnit, asked))
	if n -= n % max(res.StepSize, 1); n < res.MinUnit {
		return 0
	}
	return n
}

// boundOf gives the bound that an amount of a class does not keep on the host: of the root or, with children, of the
// provider with the most room.
func (r *row) boundOf(class string, asked int64, children bool) (bound Bound, at int64) {
	bound, room := BoundFree, int64(math.MinInt64)
	for x, used := range r.inventories(class, children) {
		free := x.Capacity - used
		if min(free, x.MaxUnit) <= room {
			continue
		}
		room = min(free, x.MaxUnit)
		switch {
		case asked > x.MaxUnit:
			bound, at = BoundMax, x.MaxUnit
		case asked < x.MinUnit:
			bound, at = BoundMin, x.MinUnit
		case x.StepSize > 1 && asked%x.StepSize != 0:
			bound, at = BoundStep, x.StepSize
		default:
			bound, at = BoundFree, max(0, free)
		}
	}
	return bound, at
}

// neededClasses are the classes that no instance can do without.
var neededClasses = map[string]bool{"VCPU": true, "PCPU": true, "MEMORY_MB": true}

// hintOf names the scheduler hint that a filter reads.
var hintOf = map[string]string{
	DifferentHostFilter: "different_host", SameHostFilter: "same_host", CIDRFilter: "build_near_host_ip", JSONFilter: "query",
}

// canRelax reports whether Relaxed can change a condition. Only operators can change conditions of hosts, aggregates
// and rules. The same holds if nothing is free of a class that every instance needs.
func (r *Request) canRelax(m *Miss) bool {
	switch m.Filter {
	case HostFilter:
		return m.Detail == namedHosts && !r.nova().Rebuild && r.otherHosts() != nil
	case TraitFilter:
		return m.Detail != disabledTrait
	case ZoneFilter, AffinityFilter, AntiAffinityFilter, NUMAFilter, PCIFilter, ExpressionFilter:
		return true
	case AggregateFilter:
		return m.Detail == "" || m.Detail == "forbidden"
	case ResourceFilter:
		switch {
		case m.Asked == 0 || strings.Contains(m.Detail, "|"): // a condition of a request with a Fallback
			return false
		case neededClasses[m.Detail]:
			s, ok := r.scaleOf(m.Detail)
			return m.Most > 0 && (r.nova().NUMA == nil || ok && s.allows(m.Most))
		}
		return true
	case CapabilitiesFilter:
		return true
	case ImageFilter:
		return r.nova().Image != nil
	}
	return hintOf[m.Filter] != ""
}

// namedHosts is the detail of the HostFilter miss for the hosts, nodes and cell that the request names.
const namedHosts = "named"

// otherHosts gives the request's destination and forced hosts without those that the caller can leave out; nil if
// there are none. The caller cannot choose the cell of a moving instance.
func (r *Request) otherHosts() (out *Request) {
	d := Destination{}
	if r.Destination != nil {
		d = *r.Destination
	}
	d.Host, d.Node = "", ""
	if r.Moving == (ID{}) {
		d.Cell = ""
	}
	if (r.Destination == nil || d == *r.Destination) && len(r.ForceHosts)+len(r.ForceNodes) == 0 {
		return nil
	}
	return &Request{Destination: &d}
}

// Relaxed gives the request without the conditions that misses name. It drops traits, zone, aggregates and named
// hosts, the NUMA topology, PCI devices, extra specs on capabilities, image properties on the hypervisor, an
// expression, or a hint. It lowers amounts to what fits on the misses' host, and makes a hard policy soft. What it
// cannot change stays.
func (r *Request) Relaxed(misses []Miss) *Request {
	out := *r
	nova := *r.nova()
	out.Nova = &nova
	for i := range misses {
		if misses[i].Filter != ResourceFilter && r.canRelax(&misses[i]) {
			out.relax(&misses[i])
		}
	}
	for i := range misses { // last, because amounts may depend on the other conditions
		if m := &misses[i]; m.Filter == ResourceFilter && out.canRelax(m) {
			out.lower(m.Detail, m.Most)
		}
	}
	return &out
}

// relax drops a condition other than an amount. The request and its Nova must be copies that it may change.
func (r *Request) relax(m *Miss) {
	nova := r.Nova
	switch m.Filter {
	case HostFilter:
		r.Destination, r.ForceHosts, r.ForceNodes = r.otherHosts().Destination, nil, nil
	case ZoneFilter:
		r.AvailabilityZone = ""
	case AggregateFilter:
		if m.Detail == "" {
			r.MemberOf = nil
		} else {
			r.ForbiddenAggregates = nil
		}
	case TraitFilter:
		r.dropTrait(m.Detail)
		if guest := nova.NUMA; guest != nil && strings.TrimPrefix(m.Detail, "!") == hyperthreading {
			nova.NUMA, nova.NeedThreads = withoutThreads(guest), false
		}
	case AffinityFilter, AntiAffinityFilter:
		g := *r.Group
		g.Policy = "soft-" + g.Policy
		r.Group = &g
	case NUMAFilter:
		r.unpin()
		nova.NUMA, nova.NeedThreads, nova.Networks = nil, false, nil
	case PCIFilter:
		r.Tree = r.Tree.without(nova.PCI)
		nova.PCI = nil
	case ExpressionFilter:
		r.Expression = nil
	case CapabilitiesFilter:
		flavor := nova.Flavor
		flavor.ExtraSpecs = slices.DeleteFunc(slices.Clone(flavor.ExtraSpecs), isCapability)
		nova.Flavor = flavor
	case ImageFilter:
		image := *nova.Image
		image.Properties = slices.DeleteFunc(slices.Clone(image.Properties), func(p Property) bool { return hypervisorProperties[p.Name] })
		nova.Image = &image
	default:
		nova.Hints = slices.DeleteFunc(slices.Clone(nova.Hints), func(h Hint) bool { return h.Name == hintOf[m.Filter] })
	}
}

// without gives the tree without the groups of devices.
func (t *Tree) without(devices []hardware.PCIRequest) *Tree {
	if t == nil {
		return nil
	}
	out := *t
	out.Groups = slices.DeleteFunc(slices.Clone(t.Groups), func(g ResourceGroup) bool {
		return slices.ContainsFunc(devices, func(r hardware.PCIRequest) bool { return slices.Contains(r.Groups, g.Suffix) })
	})
	out.SameSubtree = nil
	for _, set := range t.SameSubtree {
		out.SameSubtree = append(out.SameSubtree, slices.DeleteFunc(slices.Clone(set), func(suffix string) bool {
			return !slices.ContainsFunc(out.Groups, func(g ResourceGroup) bool { return g.Suffix == suffix })
		}))
	}
	return &out
}

// unpin asks for VCPU instead of dedicated CPUs, and drops the trait of their thread policy.
func (r *Request) unpin() {
	if f := r.Fallback; f != nil {
		r.Resources, r.Required, r.Forbidden, r.Fallback = f.Resources, f.Required, f.Forbidden, nil
		return
	}
	guest := r.nova().NUMA
	if guest == nil || !slices.ContainsFunc(guest.Cells, func(c hardware.InstanceCell) bool { return c.Pinned() }) {
		return
	}
	cpus, threads := int64(0), false
	for i := range guest.Cells {
		cpus += cellAmount(&guest.Cells[i], "VCPU")
		threads = threads || guest.Cells[i].Threads != ""
	}
	if amountOf(r.Resources, "PCPU") > 0 {
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(a Amount) bool { return a.Class == "PCPU" || a.Class == "VCPU" })
		r.Resources = append(r.Resources, Amount{"VCPU", cpus})
	}
	if threads {
		r.dropTrait(hyperthreading)
		r.dropTrait("!" + hyperthreading)
	}
}

// hyperthreading is the trait for a thread policy: require requires it, isolate forbids it.
const hyperthreading = "HW_CPU_HYPERTHREADING"

// withoutThreads gives the topology without a thread policy.
func withoutThreads(n *hardware.InstanceNUMA) *hardware.InstanceNUMA {
	out := *n
	out.Cells = slices.Clone(n.Cells)
	for i := range out.Cells {
		out.Cells[i].Threads = ""
	}
	return &out
}

// hypervisorProperties are the image properties that ImageFilter reads.
var hypervisorProperties = map[string]bool{
	"hw_architecture": true, "img_hv_type": true, "hw_vm_mode": true, "img_hv_requested_version": true, "hw_maxphysaddr_bits": true,
}

// isCapability reports whether CapabilitiesFilter may read an extra spec.
func isCapability(p Pair) bool {
	scope, _, scoped := strings.Cut(p.Key, ":")
	return !scoped || scope == "capabilities" || p.Key == "hw:maxphysaddr_bits"
}

// dropTrait drops the condition on a trait; detail is as TraitFilter writes it.
func (r *Request) dropTrait(detail string) {
	without := func(list []string, trait string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(t string) bool { return t == trait })
	}
	if forbidden, is := strings.CutPrefix(detail, "!"); is {
		r.Forbidden = without(r.Forbidden, forbidden)
		if f := r.Fallback; f != nil {
			r.Fallback = &Fallback{f.Resources, f.Required, without(f.Forbidden, forbidden)}
		}
		return
	}
	r.AnyOf = slices.DeleteFunc(slices.Clone(r.AnyOf), func(set []string) bool { return strings.Join(set, "|") == detail })
	r.Required = without(r.Required, detail)
	if f := r.Fallback; f != nil {
		r.Fallback = &Fallback{f.Resources, without(f.Required, detail), f.Forbidden}
	}
}

// lower lowers the amount of a class to n, drops it for 0, and lowers what depends on it in proportion.
func (r *Request) lower(class string, n int64) {
	s, scaled := r.scaleOf(class)
	less := func(amounts []Amount, class string, n int64) []Amount {
		var out []Amount
		for _, a := range amounts {
			if a.Class == class {
				if a.N = min(a.N, n); n == 0 {
					continue
				}
			}
			out = append(out, a)
		}
		return out
	}
	r.Resources = less(r.Resources, class, n)
	each := n // without the part of the first NUMA cell alone
	if scaled {
		each -= s.extra
	}
	if f := r.Fallback; f != nil {
		f = &Fallback{less(f.Resources, class, n), f.Required, f.Forbidden}
		if s.fallback != "" {
			f.Resources = less(f.Resources, s.fallback, each)
		}
		r.Fallback = f
	}
	if guest := r.Nova.NUMA; guest != nil && scaled {
		r.Nova.NUMA = scaledNUMA(guest, class, each/s.cells)
	}
	// The parts of the flavor that Nova's own filters read.
	switch flavor := &r.Nova.Flavor; class {
	case "VCPU", "PCPU":
		if class == "PCPU" && !scaled {
			break
		}
		flavor.VCPUs, r.Consume.VCPUs = min(flavor.VCPUs, each), min(r.Consume.VCPUs, each)
	case "MEMORY_MB":
		flavor.MemoryMB, r.Consume.RAMMB = min(flavor.MemoryMB, n), min(r.Consume.RAMMB, n)
	}
}

// scaledNUMA gives the topology with this amount of a class in each cell.
func scaledNUMA(n *hardware.InstanceNUMA, class string, each int64) *hardware.InstanceNUMA {
	out := *n
	out.Cells = slices.Clone(n.Cells)
	for i := range out.Cells {
		switch c := &out.Cells[i]; {
		case class == "MEMORY_MB":
			c.MemoryMB = each
		case c.Policy == hardware.CPUDedicated:
			c.Dedicated = int(each)
		default:
			c.CPUs = int(each)
		}
	}
	return &out
}
