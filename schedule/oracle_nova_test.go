package schedule

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// naiveFacts are a test host's facts. The oracle reads them directly; the fast scheduler reads the
// texts made from them.
type naiveFacts struct {
	hypervisor string // "": NULL
	arch       string
	cores      int
	rack       string // "": no such capability
	ip         string
	busy       float64 // the metric cpu.percent as a fraction; below 0: no metric
	unfilled   bool
	broken     bool // stats that cannot be read
}

func (n *naiveFacts) facts() *Facts {
	t := FactTexts{HypervisorType: n.hypervisor, HostIP: n.ip, Stats: "{}"}
	if n.arch != "" {
		t.CPUInfo = fmt.Sprintf(`{"arch": %q, "topology": {"cores": %d}}`, n.arch, n.cores)
		t.SupportedInstances = fmt.Sprintf(`[["i686", "kvm", "hvm"], [%q, "kvm", "hvm"]]`, n.arch)
	}
	if n.rack != "" {
		b, _ := json.Marshal(map[string]string{"rack": n.rack})
		t.Stats = string(b)
	}
	if n.broken {
		t.Stats = "{"
	}
	if n.busy >= 0 {
		t.Metrics = fmt.Sprintf(`[{"name": "cpu.percent", "value": %v}]`, n.busy)
	}
	f := ParseFacts(t)
	f.Unfilled = n.unfilled
	return f
}

// naiveKinds are the kinds of test hosts; kind 0 has no facts.
var naiveKinds = []naiveFacts{
	{busy: -1},
	{hypervisor: "QEMU", arch: "x86_64", cores: 8, rack: "r1", ip: "10.0.0.7", busy: 0.25},
	{hypervisor: "QEMU", arch: "x86_64", cores: 32, rack: "r2", ip: "10.0.1.7", busy: 0.75},
	{hypervisor: "QEMU", arch: "x86_64", cores: 32, rack: "r1", ip: "10.0.1.8", busy: -1},
	{hypervisor: "5", arch: "aarch64", cores: 64, busy: 0.5},
	{hypervisor: "QEMU", busy: -1, unfilled: true},
	{hypervisor: "QEMU", busy: -1, broken: true},
}

// naiveKind gives a host's kind by its Facts pointer.
var naiveKind = map[*Facts]*naiveFacts{}

var kindFacts = func() []*Facts {
	list := make([]*Facts, len(naiveKinds))
	for i := range naiveKinds[1:] {
		list[1+i] = naiveKinds[1+i].facts()
		naiveKind[list[1+i]] = &naiveKinds[1+i]
	}
	return list
}()

func factsOfHost(h *Host) *naiveFacts {
	if h.Facts == nil {
		return &naiveKinds[0]
	}
	return naiveKind[h.Facts]
}

// says is what a host answers about an extra spec.
type says int

const (
	matches says = iota
	differs
	missing // the host lacks the attribute
	breaks  // Nova raises
)

// sayIf gives matches if ok, else differs.
func sayIf(ok bool) says {
	if ok {
		return matches
	}
	return differs
}

// naiveSpec is an extra spec with its meaning, written out by hand.
type naiveSpec struct {
	pair Pair
	// host answers for ComputeCapabilitiesFilter, with the host as before any pick; nil: that
	// filter does not read the key.
	host func(h *Host, f *naiveFacts) says
	// aggregate answers for AggregateInstanceExtraSpecsFilter about one value; nil: that filter
	// does not read the key.
	key       string
	aggregate func(v string) says
}

var naiveSpecs = []naiveSpec{
	{pair: Pair{"capabilities:cpu_info:arch", "s== x86_64"}, host: func(_ *Host, f *naiveFacts) says {
		return naiveHas(f, f.arch != "", f.arch == "x86_64")
	}},
	{pair: Pair{"capabilities:cpu_info:topology:cores", ">= 16"}, host: func(_ *Host, f *naiveFacts) says {
		return naiveHas(f, f.arch != "", f.cores >= 16)
	}},
	{pair: Pair{"capabilities:hypervisor_type", "<or> XEN <or> QEMU"}, host: func(_ *Host, f *naiveFacts) says {
		return naiveHas(f, true, f.hypervisor == "QEMU")
	}},
	{pair: Pair{"capabilities:free_ram_mb", "= 2000"}, host: func(h *Host, _ *naiveFacts) says {
		return sayIf(h.View.FreeRAMMB >= 2000)
	}},
	{pair: Pair{"capabilities:rack", "<in> 1"}, host: func(_ *Host, f *naiveFacts) says {
		return naiveHas(f, f.rack != "", f.rack == "r1")
	}},
	{
		pair: Pair{"vcpus_used", "<= 10"}, host: func(h *Host, _ *naiveFacts) says { return sayIf(h.View.VCPUsUsed <= 10) },
		key: "vcpus_used", aggregate: naiveNumber(func(n float64) bool { return n <= 10 }),
	},
	{
		// No host has ssd as an attribute or among its stats.
		pair: Pair{"ssd", "true"}, host: func(*Host, *naiveFacts) says { return matches },
		key: "ssd", aggregate: func(v string) says { return sayIf(v == "true") },
	},
	{
		// Hosts without a rack pass: the key has no scope.
		pair: Pair{"rack", "s!= r2"}, host: func(_ *Host, f *naiveFacts) says { return sayIf(f.unfilled || f.rack != "r2") },
		key: "rack", aggregate: func(v string) says { return sayIf(v != "r2") },
	},
	{
		pair: Pair{"aggregate_instance_extra_specs:tier", ">= 2"},
		key:  "tier", aggregate: naiveNumber(func(n float64) bool { return n >= 2 }),
	},
	{pair: Pair{"quota:cpu_shares", "10"}},
}

// naiveRaising is used alone, so that no other spec rejects a host before it raises.
var naiveRaising = naiveSpec{
	pair: Pair{"capabilities:hypervisor_type", ">= 5"}, host: func(_ *Host, f *naiveFacts) says {
		switch {
		case f.unfilled:
			return missing
		case f.hypervisor == "5":
			return matches
		}
		return breaks
	},
}

func naiveHas(f *naiveFacts, has, ok bool) says {
	if f.unfilled || !has {
		return missing
	}
	return sayIf(ok)
}

func naiveNumber(ok func(float64) bool) func(string) says {
	return func(v string) says {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return breaks
		}
		return sayIf(ok(n))
	}
}

func naiveSpecOf(p Pair) *naiveSpec {
	if p == naiveRaising.pair {
		return &naiveRaising
	}
	for i := range naiveSpecs {
		if naiveSpecs[i].pair == p {
			return &naiveSpecs[i]
		}
	}
	panic("no meaning of " + p.Key)
}

// naiveQuestions are queries of JsonFilter, with functions that answer them and tell whether Nova
// raises.
var naiveQuestions = map[string]func(h *Host, f *naiveFacts) (bool, bool){
	`[">=", "$free_ram_mb", 1500]`: func(h *Host, _ *naiveFacts) (bool, bool) { return h.View.FreeRAMMB >= 1500, false },
	`["or", ["=", "$hypervisor_type", "QEMU"], ["<", "$num_instances", 2]]`: func(h *Host, f *naiveFacts) (bool, bool) {
		return !f.unfilled && f.hypervisor == "QEMU" || h.View.NumInstances < 2, false
	},
	// "not" makes a list, of which any true element suffices.
	`["not", ["=", "$hypervisor_type", "QEMU"], ["=", 1, 1]]`: func(_ *Host, f *naiveFacts) (bool, bool) {
		return f.unfilled || f.hypervisor != "QEMU", false
	},
	// JsonFilter drops an unknown attribute, and "=" of one argument is false.
	`["=", "$no_such", "$no_such"]`: func(*Host, *naiveFacts) (bool, bool) { return false, false },
	`["=", "$stats.rack", "r1"]`:    func(_ *Host, f *naiveFacts) (bool, bool) { return f.rack == "r1", false },
	`["in", "$hypervisor_type", "XEN", "QEMU"]`: func(_ *Host, f *naiveFacts) (bool, bool) {
		return !f.unfilled && f.hypervisor == "QEMU", false
	},
	`["~", 1, 2]`: func(*Host, *naiveFacts) (bool, bool) { return false, true },
	`[]`:          func(*Host, *naiveFacts) (bool, bool) { return true, false },
}

// naiveSplit gives the comma-separated parts of a metadata key's values over a host's aggregates.
func naiveSplit(h *Host, key string) (parts []string, has bool) {
	for _, a := range h.Aggregates {
		v, ok := a.Metadata[key]
		if !ok {
			continue
		}
		has = true
		for _, w := range strings.Split(v, ",") {
			parts = append(parts, strings.TrimSpace(w))
		}
	}
	return parts, has
}

// naiveLeast is the smallest of a key's values over a host's aggregates; otherwise: without a
// value, or if one is no number.
func naiveLeast(h *Host, key string, otherwise float64, whole bool) float64 {
	least, has := math.Inf(1), false
	for _, a := range h.Aggregates {
		text, ok := a.Metadata[key]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || whole && v != math.Trunc(v) {
			return otherwise
		}
		least, has = min(least, v), true
	}
	if !has {
		return otherwise
	}
	return least
}

// novaFilter runs one of Nova's own filters on one host.
func (s *naiveState) novaFilter(filter string, h *Host, r *Request, rules *Rules) (detail string, pass bool) {
	n, o := r.Nova, rules.Options
	if n == nil {
		n = &NovaRequest{}
	}
	if o == nil {
		o = DefaultOptions()
	}
	f, v := factsOfHost(h), &h.View
	if r.Forced() || n.Rebuild && !slices.Contains([]string{ImageFilter, AggregateImageFilter, IsolatedHostsFilter}, filter) {
		return "", true
	}
	hint := func(name string) []string {
		for _, x := range n.Hints {
			if x.Name == name {
				return x.Values
			}
		}
		return nil
	}
	disk := 1024*(n.Flavor.RootGB+n.Flavor.EphemeralGB) + n.Flavor.SwapMB
	// Nova raises for a host that has not reported, and so has no ratio, unless an aggregate has
	// one.
	answer := func(ratio float64, pass func(float64) bool) (string, bool) {
		if ratio != ratio {
			return Unreadable, false
		}
		return "", pass(ratio)
	}
	own := func(ratio float64) float64 {
		if f.unfilled {
			return math.NaN()
		}
		return ratio
	}
	fits := func(want, total, free int64, ratio float64) (string, bool) {
		if total < want {
			return "", false
		}
		return answer(ratio, func(x float64) bool { return float64(float64(total)*x)-float64(total-free) >= float64(want) })
	}
	cores := func(ratio float64) (string, bool) {
		if v.VCPUsTotal == 0 {
			return "", true
		}
		total, want := float64(v.VCPUsTotal), float64(n.Flavor.VCPUs)
		return answer(ratio, func(x float64) bool {
			limit := float64(total * x)
			return !(limit > 0 && want > total) && limit-float64(v.VCPUsUsed) >= want
		})
	}
	switch filter {
	case AllHostsFilter:
		return "", true
	case CapabilitiesFilter:
		was := *h
		was.View = s.first[h.UUID]
		for _, p := range n.Flavor.ExtraSpecs {
			spec := naiveSpecOf(p)
			if spec.host == nil {
				continue
			}
			switch spec.host(&was, f) {
			case breaks:
				return Unreadable, false
			case differs, missing:
				return "", false
			}
		}
		return "", true
	case AggregateExtraSpecsFilter:
		for _, p := range n.Flavor.ExtraSpecs {
			spec := naiveSpecOf(p)
			if spec.aggregate == nil {
				continue
			}
			parts, _ := naiveSplit(h, spec.key)
			best := differs
			for _, w := range parts {
				if got := spec.aggregate(w); got == matches || got == breaks && best != matches {
					best = got
				}
			}
			if best == breaks {
				return Unreadable, false
			}
			if best != matches {
				return "", false
			}
		}
		return "", true
	case ImageFilter:
		if n.Image == nil {
			return "", o.DefaultArchitecture == "" || !f.unfilled && o.DefaultArchitecture == f.arch
		}
		for _, p := range n.Image.Properties {
			if p.Name == "hw_architecture" {
				return "", !f.unfilled && f.arch != "" && (p.Text == f.arch || p.Text == "i686")
			}
		}
		return "", o.DefaultArchitecture == "" || !f.unfilled && o.DefaultArchitecture == f.arch
	case DifferentHostFilter, SameHostFilter:
		named := hint(map[string]string{DifferentHostFilter: "different_host", SameHostFilter: "same_host"}[filter])
		if len(named) == 0 {
			return "", true
		}
		there := false
		for i := range s.hosts { // over all nodes of the service host
			x := &s.hosts[i]
			if x.ServiceHost != h.ServiceHost || x.Cell != h.Cell {
				continue
			}
			for _, c := range s.on[x.UUID] {
				there = there || slices.Contains(named, c.Instance.String())
			}
		}
		return "", there == (filter == SameHostFilter)
	case CIDRFilter:
		near := hint("build_near_host_ip")
		if len(near) == 0 {
			return "", true
		}
		if f.unfilled || f.ip == "" {
			return Unreadable, false
		}
		return "", strings.HasPrefix(f.ip, strings.TrimSuffix(near[0], "9")) // tests draw only the default /24
	case IoOpsFilter:
		return "", v.NumIOOps < o.MaxIOOpsPerHost
	case AggregateIoOpsFilter:
		return "", float64(v.NumIOOps) < naiveLeast(h, "max_io_ops_per_host", float64(o.MaxIOOpsPerHost), true)
	case NumInstancesFilter:
		return "", v.NumInstances < o.MaxInstancesPerHost
	case AggregateNumInstancesFilter:
		return "", float64(v.NumInstances) < naiveLeast(h, "max_instances_per_host", float64(o.MaxInstancesPerHost), true)
	case AggregateImageFilter:
		if n.Image == nil {
			return "", true
		}
		for _, p := range n.Image.Properties {
			if o.ImageIsolationNamespace != "" && !strings.HasPrefix(p.Name, o.ImageIsolationNamespace+o.ImageIsolationSeparator) {
				continue
			}
			if parts, has := naiveSplit(h, p.Name); has && !p.Zero && !slices.Contains(parts, p.Text) {
				return "", false
			}
		}
		return "", true
	case AggregateTenantFilter:
		var tenants []string
		isolated := false
		for _, key := range []string{"filter_tenant_id", "filter_tenant_id2"} {
			if key != "filter_tenant_id" && o.ExactTenantKey {
				continue
			}
			parts, has := naiveSplit(h, key)
			tenants, isolated = append(tenants, parts...), isolated || has
		}
		return "", !isolated || n.ProjectID != "" && slices.Contains(tenants, n.ProjectID)
	case AggregateTypeAffinityFilter:
		parts, has := naiveSplit(h, "instance_type")
		return "", !has || slices.Contains(parts, n.Flavor.Name)
	case IsolatedHostsFilter:
		host := slices.Contains(o.IsolatedHosts, h.ServiceHost)
		image := n.Image != nil && n.Image.ID != "" && slices.Contains(o.IsolatedImages, n.Image.ID)
		if o.RestrictIsolated {
			return "", host == image
		}
		return "", !image || host
	case JSONFilter:
		q := hint("query")
		if len(q) == 0 {
			return "", true
		}
		ok, raises := naiveQuestions[q[0]](h, f)
		if raises {
			return Unreadable, false
		}
		return "", ok
	case MetricsFilter:
		if f.unfilled {
			return Unreadable, false
		}
		return "", len(o.MetricsSetting) == 0 || f.busy >= 0
	case CoreFilter:
		return cores(own(v.CPURatio))
	case AggregateCoreFilter:
		return cores(naiveLeast(h, "cpu_allocation_ratio", own(v.CPURatio), false))
	case RAMFilter:
		return fits(n.Flavor.MemoryMB, v.TotalRAMMB, v.FreeRAMMB, own(v.RAMRatio))
	case AggregateRAMFilter:
		return fits(n.Flavor.MemoryMB, v.TotalRAMMB, v.FreeRAMMB, naiveLeast(h, "ram_allocation_ratio", own(v.RAMRatio), false))
	case DiskFilter:
		return fits(disk, v.TotalDiskGB*1024, v.FreeDiskMB, own(v.DiskRatio))
	case AggregateDiskFilter:
		return fits(disk, v.TotalDiskGB*1024, v.FreeDiskMB, naiveLeast(h, "disk_allocation_ratio", own(v.DiskRatio), false))
	case ExactCoreFilter:
		return "", v.VCPUsTotal > 0 && v.VCPUsTotal-v.VCPUsUsed == n.Flavor.VCPUs
	case ExactRAMFilter:
		return "", v.FreeRAMMB == n.Flavor.MemoryMB
	case ExactDiskFilter:
		return "", v.FreeDiskMB == disk
	case RetryFilter:
		return "", !slices.Contains(n.Retry, RetryHost{Host: h.ServiceHost, Node: h.NodeName})
	case TypeAffinityFilter:
		for _, c := range s.instancesOn(h, r) {
			if c.Flavor == "" || c.Flavor != n.Flavor.ID {
				return "", false
			}
		}
		return "", true
	case NUMAFilter:
		return s.numaFilter(h, n)
	case PCIFilter:
		return "", s.pciFilter(h, n)
	}
	panic("no filter " + filter)
}

// instancesOn gives the instances on a host, with their flavors and images if known. As in Nova, picks are among them
// only if the request has a group.
func (s *naiveState) instancesOn(h *Host, r *Request) []Consumer {
	all := slices.Clone(s.on[h.UUID])
	if r.Group == nil {
		return all
	}
	for _, id := range s.picked[h.UUID] {
		c := Consumer{Instance: id}
		if r.Nova != nil {
			c.Flavor, c.Image = r.Nova.Flavor.ID, r.Nova.Image
		}
		all = append(all, c)
	}
	return all
}

// naiveMultiplier is a weigher's multiplier for a host: as its aggregates set it, else as
// configured.
func naiveMultiplier(w Weigher, h *Host) float64 {
	return naiveLeast(h, MultiplierOption(w.Name), w.Multiplier, false)
}

// novaRaw is a host's raw weight by an expression, or by a weigher of Nova's that reads more than
// amounts.
func (s *naiveState) novaRaw(weigher string, h *Host, r *Request, rules *Rules) float64 {
	o := rules.Options
	if o == nil {
		o = DefaultOptions()
	}
	switch weigher {
	case ConfiguredExpressionWeigher:
		return rules.Weigh.(testWeigh).naive(h)
	case ExpressionWeigher:
		return r.Weigh.(testWeigh).naive(h)
	case MetricsWeigher:
		f, m := factsOfHost(h), 0.0
		for _, w := range rules.Weighers {
			if w.Name == MetricsWeigher {
				m = naiveMultiplier(w, h)
			}
		}
		sum := 0.0
		for _, set := range o.MetricsSetting {
			if f.busy < 0 || f.unfilled || f.broken {
				if set.Ratio*m != 0 {
					return o.MetricsUnavailable
				}
				continue
			}
			sum += float64(math.Trunc(f.busy*100) * set.Ratio)
		}
		return sum
	case ImagePropertiesWeigher:
		sum := 0.0
		off := slices.ContainsFunc(rules.Weighers, func(w Weigher) bool { return w.Name == weigher && w.Multiplier == 0 })
		if off || r.Nova == nil || r.Nova.Image == nil {
			return 0
		}
		for _, p := range r.Nova.Image.Properties {
			factor, n := 0.0, 0
			if len(o.ImagePropertySetting) == 0 {
				factor = 1
			}
			for _, x := range o.ImagePropertySetting {
				if x.Name == p.Name {
					factor = x.Ratio
				}
			}
			for _, c := range s.on[h.UUID] {
				if c.Image != nil && slices.ContainsFunc(c.Image.Properties, func(q Property) bool { return q.Name == p.Name && q.Text == p.Text }) {
					n++
				}
			}
			sum += float64(factor * float64(n))
		}
		return sum
	}
	panic("no weigher " + weigher)
}

// randomNova draws the parts of a request that Nova's filters read.
func randomNova(rng *rand.Rand, host func() string, node func() string) *NovaRequest {
	if rng.IntN(3) == 0 {
		return nil
	}
	n := &NovaRequest{
		Flavor: Flavor{
			ID: oneOf(rng, []string{"", "1", "2"}), Name: oneOf(rng, []string{"small", "large"}),
			VCPUs: rng.Int64N(5), MemoryMB: rng.Int64N(3) * 500, RootGB: rng.Int64N(3), SwapMB: rng.Int64N(2) * 512,
		},
		ProjectID: oneOf(rng, []string{"", "p1", "p2"}),
		Rebuild:   rng.IntN(12) == 0,
	}
	switch rng.IntN(4) {
	case 0:
		for _, i := range rng.Perm(len(naiveSpecs))[:rng.IntN(4)] {
			n.Flavor.ExtraSpecs = append(n.Flavor.ExtraSpecs, naiveSpecs[i].pair)
		}
	case 1:
		if rng.IntN(3) == 0 {
			n.Flavor.ExtraSpecs = []Pair{naiveRaising.pair}
		}
	}
	if rng.IntN(2) == 0 {
		n.Image = randomImage(rng)
	}
	hints := map[string]func() []string{
		"build_near_host_ip": func() []string { return []string{oneOf(rng, []string{"10.0.0.9", "10.0.1.9"})} },
		"different_host":     func() []string { return []string{fleetInstance(rng.IntN(80)).String(), "no uuid"} },
		"query": func() []string {
			var all []string
			for q := range naiveQuestions {
				all = append(all, q)
			}
			slices.Sort(all)
			return []string{oneOf(rng, all)}
		},
		"same_host": func() []string {
			var list []string
			for range 20 {
				list = append(list, fleetInstance(rng.IntN(80)).String())
			}
			return list
		},
	}
	for _, name := range []string{"build_near_host_ip", "different_host", "query", "same_host"} {
		if rng.IntN(6) == 0 {
			n.Hints = append(n.Hints, Hint{Name: name, Values: hints[name]()})
		}
	}
	for rng.IntN(4) == 0 {
		n.Retry = append(n.Retry, RetryHost{Host: host(), Node: node()})
	}
	randomGuest(rng, n)
	return n
}

func randomImage(rng *rand.Rand) *Image {
	image := &Image{ID: oneOf(rng, []string{"", "image1", "image2"})}
	for _, p := range []Property{
		{Name: "hw_architecture", Text: oneOf(rng, []string{"x86_64", "aarch64", "i686"})},
		{Name: "hw_qemu_guest_agent", Text: "True"},
		{Name: "os_distro", Text: oneOf(rng, []string{"debian", "ubuntu"})},
	} {
		if rng.IntN(2) == 0 {
			image.Properties = append(image.Properties, p)
		}
	}
	return image
}

// randomOptions draws Nova's options; nil: the defaults.
func randomOptions(rng *rand.Rand, host func() string) *Options {
	if rng.IntN(3) == 0 {
		return nil
	}
	o := DefaultOptions()
	o.MaxIOOpsPerHost, o.MaxInstancesPerHost = rng.Int64N(5)-1, rng.Int64N(5)
	if rng.IntN(2) == 0 {
		o.IsolatedHosts, o.IsolatedImages = []string{host(), host()}, some(rng, []string{"image1"}, 0.7)
	}
	o.RestrictIsolated = rng.IntN(2) == 0
	if len(o.IsolatedImages) == 0 && !o.RestrictIsolated {
		o.IsolatedHosts = nil
	}
	o.DefaultArchitecture = oneOf(rng, []string{"", "", "x86_64"})
	o.ImageIsolationNamespace = oneOf(rng, []string{"", "", "os"})
	o.ImageIsolationSeparator = "_"
	if rng.IntN(2) == 0 {
		o.MetricsSetting = []Ratio{{"cpu.percent", oneOf(rng, []float64{1, -0.5, 0})}}
	}
	o.MetricsUnavailable = oneOf(rng, []float64{-10000, 0, 20})
	o.ImagePropertySetting = some(rng, []Ratio{{"os_distro", 10}, {"hw_architecture", -1}}, 0.5)
	o.ExactTenantKey = rng.IntN(2) == 0
	return o
}

// novaMetadata draws aggregate metadata that Nova's filters and weighers read.
func novaMetadata(rng *rand.Rand, to map[string]string) {
	for _, m := range metadataDrawn {
		if rng.IntN(9) == 0 {
			to[m.key] = oneOf(rng, m.values)
		}
	}
	for _, w := range Weighers() {
		if rng.IntN(20) == 0 {
			to[MultiplierOption(w)] = oneOf(rng, []string{"2", " 0.5 ", "-1", "0", "x", "1e6", "1"})
		}
	}
}

var metadataDrawn = []struct {
	key    string
	values []string
}{
	{"filter_tenant_id", []string{"p1", "p1, p2"}},
	{"filter_tenant_id2", []string{"p2"}},
	{"instance_type", []string{"small", "small,large"}},
	{"max_io_ops_per_host", []string{"1", "2", "many"}},
	{"max_instances_per_host", []string{"3", " 1 "}},
	{"ssd", []string{"true", "false,true"}},
	{"rack", []string{"r1", "r2"}},
	{"tier", []string{"1", "3", "gold"}},
	{"vcpus_used", []string{"5"}},
	{"os_distro", []string{"debian", "ubuntu, debian"}},
	{"hw_qemu_guest_agent", []string{"True", "true"}},
	{"cpu_allocation_ratio", []string{"2", "x"}},
	{"ram_allocation_ratio", []string{"0.5"}},
	{"disk_allocation_ratio", []string{"3"}},
}
