package schedule

import (
	"math"
	"slices"
)

// The oracle is a slow scheduler that is meant to be obviously right: one plain loop a rule, after
// Nova's nova/scheduler/{manager,host_manager}.py, filters/ and weights/. Tests compare the fast
// scheduler with it.

// naiveConsumer is an instance on a host; Also has its places on other hosts.
type naiveConsumer struct {
	Host     ID
	Consumer Consumer
	Also     []Place
}

// places are all places of the instance.
func (c naiveConsumer) places() []Place {
	return append([]Place{{Host: c.Host, Group: c.Consumer.Group}}, c.Also...)
}

func (c naiveConsumer) put(e *Edit) {
	for _, p := range c.places() {
		on := c.Consumer
		on.Group = p.Group
		e.AddConsumer(p.Host, on)
	}
}

// naiveConsumers gives consumers by instance.
type naiveConsumers map[ID]naiveConsumer

// naivePropose answers a query over hosts.
func naivePropose(hosts []Host, consumers naiveConsumers, q *Query) *Proposal {
	s := newNaiveState(hosts, consumers)
	s.limited = slices.Contains(naiveRules(q.Rules).Filters, NUMAFilter)
	for _, t := range q.TentativePlacements {
		s.placeInstance(t, q.Request)
	}
	affinity := s.groupHosts(q.Request)
	if q.Known != nil && q.Known.GroupHostsKnown {
		affinity = slices.Clone(q.Known.GroupHosts)
		for _, t := range q.TentativePlacements {
			if h := s.host(t.Host); h != nil {
				affinity = append(affinity, h.ServiceHost)
			}
		}
	}
	rules := naiveRules(q.Rules)
	passed, rejects := s.filter(q.Request, rules, affinity)
	p := &Proposal{
		Hosts:   len(s.hosts),
		Passed:  len(passed),
		Rejects: rejects,
		Bounds:  s.bounds(q.Request, rules, passed),
	}
	p.Multipliers = naiveMultipliers(rules, passed)
	if q.Request.Group != nil {
		for i := range s.hosts {
			if n := s.members(&s.hosts[i], q.Request); n > 0 {
				p.GroupHosts = append(p.GroupHosts, GroupHost{
					Host: s.hosts[i].UUID, ServiceHost: s.hosts[i].ServiceHost, Members: n,
				})
			}
		}
	}
	bounds, weighed := p.Bounds, p.Passed > 1
	if q.Known != nil && len(q.Known.Bounds) > 0 {
		bounds, weighed = q.Known.Bounds, q.Known.Passed != 1
	}
	p.Candidates = s.rank(q.Request, rules, q.Seed, passed, bounds, weighed)
	if len(p.Candidates) > q.Limit {
		p.Candidates = p.Candidates[:q.Limit]
	}
	return p
}

// naiveMultipliers are the bounds of the multipliers of hosts that passed; nil: all hosts have
// those of the rules.
func naiveMultipliers(rules *Rules, passed []*Host) []Bounds {
	own := false
	list := make([]Bounds, len(rules.Weighers))
	for i, w := range rules.Weighers {
		list[i] = Bounds{Min: math.Inf(1), Max: math.Inf(-1)}
		for _, h := range passed {
			m := naiveMultiplier(w, h)
			own = own || m != w.Multiplier
			list[i].Min, list[i].Max = min(list[i].Min, m), max(list[i].Max, m)
		}
	}
	if !own {
		return nil
	}
	return list
}

// naiveSelect is one scheduler over all hosts. It picks a host for each instance in turn, and then
// alternates. After so many picks it loses the hosts of a cell; after -1: never.
func naiveSelect(hosts []Host, consumers naiveConsumers, r *Request, rules *Rules, seed uint64, instances []ID, alternates, after int, cell string) (picks []naivePick, failed int) {
	s := newNaiveState(hosts, consumers)
	s.limited = slices.Contains(naiveRules(rules).Filters, NUMAFilter)
	sorted := func() []Candidate {
		if len(picks) == after {
			s.hosts = slices.DeleteFunc(s.hosts, func(h Host) bool { return h.Cell == cell })
		}
		full := naiveRules(rules)
		passed, _ := s.filter(r, full, s.groupHosts(r))
		return s.rank(r, full, seed, passed, s.bounds(r, full, passed), len(passed) > 1)
	}
	var last []Candidate
	for i, instance := range instances {
		last = sorted()
		if len(last) == 0 {
			return picks, i
		}
		// Nova picks at random among the best SubsetSize hosts, and moves the pick to the front
		// (manager.py, _get_sorted_hosts).
		n := 1
		if rules.Options != nil {
			n = max(1, rules.Options.SubsetSize)
		}
		at := 0
		if n = min(n, len(last)); n > 1 {
			at = int(Draw(seed, i) % uint64(n))
		}
		pick, ranked := last[at], slices.Clone(last)
		last = append([]Candidate{pick}, slices.Delete(last, at, at+1)...)
		picks = append(picks, naivePick{Cell: s.host(pick.Host).Cell, Candidate: pick, Ranked: ranked})
		s.placeInstance(TentativePlacement{Host: pick.Host, Instance: instance}, r)
	}
	if alternates < 1 {
		return picks, -1
	}
	if len(instances) > 1 {
		last = sorted()
	}
	for i := range picks {
		for _, c := range last {
			selected := slices.ContainsFunc(picks, func(p naivePick) bool { return p.Candidate.Host == c.Host })
			if !selected && s.host(c.Host).Cell == picks[i].Cell && len(picks[i].Alternates) < alternates {
				picks[i].Alternates = append(picks[i].Alternates, c)
			}
		}
	}
	return picks, -1
}

// naivePick is a pick of naiveSelect; Cell is the host's Cell.
type naivePick struct {
	Cell       string
	Candidate  Candidate
	Alternates []Candidate
	// Ranked are all hosts that passed before this pick, best first.
	Ranked []Candidate
}

// naiveState is the state of hosts after some picks.
type naiveState struct {
	hosts  []Host
	on     map[ID][]Consumer // by host
	picked map[ID][]ID       // instances picked for a host
	first  map[ID]View       // views before any pick, by host
	hw     map[ID]*naiveHardware
	// limited: NUMATopologyFilter runs, so picks take NUMA cells within its limits.
	limited bool
}

func newNaiveState(hosts []Host, consumers naiveConsumers) *naiveState {
	s := &naiveState{on: map[ID][]Consumer{}, picked: map[ID][]ID{}, first: map[ID]View{}, hw: map[ID]*naiveHardware{}}
	for _, h := range hosts {
		h.Resources = slices.Clone(h.Resources)
		s.hosts = append(s.hosts, h)
		s.first[h.UUID] = h.View
	}
	for _, c := range consumers {
		for _, p := range c.places() {
			on := c.Consumer
			on.Group = p.Group
			s.on[p.Host] = append(s.on[p.Host], on)
		}
	}
	return s
}

func (s *naiveState) host(id ID) *Host {
	for i := range s.hosts {
		if s.hosts[i].UUID == id {
			return &s.hosts[i]
		}
	}
	return nil
}

// placeInstance consumes from a host (host_manager.py, _locked_consume_from_request).
func (s *naiveState) placeInstance(t TentativePlacement, r *Request) {
	h := s.host(t.Host)
	if h == nil {
		return
	}
	resources, consume := r.Resources, r.Consume
	if naiveAllocation(h, r) != nil {
		resources, consume = r.Fallback.Resources, Consumption{}
		for _, a := range resources {
			switch a.Class {
			case "VCPU":
				consume.VCPUs = a.N
			case "MEMORY_MB":
				consume.RAMMB = a.N
			case "DISK_GB":
				consume.DiskMB = 1024 * a.N
			}
		}
	}
	for _, a := range resources {
		for i := range h.Resources {
			if h.Resources[i].Class == a.Class {
				h.Resources[i].Used += a.N
			}
		}
	}
	h.View.VCPUsUsed += consume.VCPUs
	h.View.FreeRAMMB -= consume.RAMMB
	h.View.FreeDiskMB -= consume.DiskMB
	h.View.NumInstances++
	if s.takeHardware(h, r) {
		h.View.NumIOOps++
	}
	s.picked[t.Host] = append(s.picked[t.Host], t.Instance)
}

// members counts the group's instances on a host. Under affinity, the instance that moves does not
// count.
func (s *naiveState) members(h *Host, r *Request) int {
	g, set := r.Group, map[ID]bool{}
	for _, c := range s.on[h.UUID] {
		if slices.Contains(g.Members, c.Instance) || (g.UUID != ID{} && c.Group == g.UUID) {
			set[c.Instance] = true
		}
	}
	for _, instance := range s.picked[h.UUID] {
		if !g.MembersExact || slices.Contains(g.Members, instance) {
			set[instance] = true
		}
	}
	if g.Policy == Affinity {
		delete(set, r.Moving)
	}
	return len(set)
}

// hasMoving reports whether the instance that moves is on a host.
func (s *naiveState) hasMoving(h *Host, r *Request) bool {
	isIt := func(id ID) bool { return r.Moving != ID{} && id == r.Moving }
	return slices.ContainsFunc(s.on[h.UUID], func(c Consumer) bool { return isIt(c.Instance) }) ||
		slices.ContainsFunc(s.picked[h.UUID], isIt)
}

// groupHosts are the service hosts that affinity allows. The request names them, or they have
// members, or were picked before. manager.py appends picked hosts to the group's hosts, whatever
// its members.
func (s *naiveState) groupHosts(r *Request) []string {
	if r.Group == nil {
		return nil
	}
	names := slices.Clone(r.Group.Hosts)
	for i := range s.hosts {
		h := &s.hosts[i]
		if s.members(h, r) > 0 || len(s.picked[h.UUID]) > 0 {
			names = append(names, h.ServiceHost)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func naiveRules(r *Rules) *Rules {
	full := *r
	if full.Filters == nil {
		full.Filters = DefaultFilters()
	}
	if !slices.Contains(full.Filters, HostFilter) {
		full.Filters = append([]string{HostFilter}, full.Filters...)
	}
	if full.Weighers == nil {
		full.Weighers = DefaultWeighers()
	}
	return &full
}

// raw is a host's raw weight by a weigher, after clamping.
func (s *naiveState) raw(weigher string, h *Host, r *Request, rules *Rules) float64 {
	v := &h.View
	switch weigher {
	case RAMWeigher:
		return max(0, float64(v.FreeRAMMB))
	case CPUWeigher:
		return max(0, float64(float64(v.VCPUsTotal)*v.CPURatio)-float64(v.VCPUsUsed))
	case DiskWeigher:
		return max(0, float64(v.FreeDiskMB))
	case IoOpsWeigher:
		return max(0, float64(v.NumIOOps))
	case NumInstancesWeigher:
		return float64(v.NumInstances)
	case PCIWeigher:
		return float64(100 - min(v.PCIFree, 99))
	case HypervisorVersionWeigher:
		return float64(v.HypervisorVersion)
	case BuildFailureWeigher:
		return float64(v.FailedBuilds)
	case CrossCellWeigher:
		if d := r.Destination; d != nil && d.Cell != "" && d.AllowCrossCellMove {
			if d.Cell == h.Cell {
				return 1
			}
			return -1
		}
		return 0
	case SoftAffinityWeigher:
		if r.Group != nil && r.Group.Policy == SoftAffinity {
			return float64(s.members(h, r))
		}
		return 0
	case SoftAntiAffinityWeigher:
		if r.Group != nil && r.Group.Policy == SoftAntiAffinity {
			return float64(-s.members(h, r))
		}
		return 0
	}
	return s.novaRaw(weigher, h, r, rules)
}

func (s *naiveState) bounds(r *Request, rules *Rules, passed []*Host) []Bounds {
	bounds := make([]Bounds, len(rules.Weighers))
	for i, w := range rules.Weighers {
		b := Bounds{Min: math.Inf(1), Max: math.Inf(-1)}
		for _, h := range passed {
			x := s.raw(w.Name, h, r, rules)
			b.Min, b.Max = min(b.Min, x), max(b.Max, x)
		}
		switch w.Name {
		case RAMWeigher, CPUWeigher, DiskWeigher, IoOpsWeigher:
			if len(passed) > 0 {
				b.Min = 0
			}
		}
		bounds[i] = b
	}
	return bounds
}

// rank weighs and sorts (nova/weights.py).
func (s *naiveState) rank(r *Request, rules *Rules, seed uint64, passed []*Host, bounds []Bounds, weighed bool) []Candidate {
	var list []Candidate
	for _, h := range passed {
		c := Candidate{
			Allocation: naiveAllocation(h, r), Limits: naiveLimits(h, r, rules),
			Host: h.UUID, ServiceHost: h.ServiceHost, NodeName: h.NodeName,
			Zone: naiveZones(h, rules)[0], Tie: Tie(seed, HostHash(h.UUID)),
		}
		own := make([]float64, len(rules.Weighers))
		for i, w := range rules.Weighers {
			own[i] = naiveMultiplier(w, h)
			if own[i] != w.Multiplier {
				c.Multipliers = own
			}
		}
		for i, w := range rules.Weighers {
			x := s.raw(w.Name, h, r, rules)
			c.Raw = append(c.Raw, x)
			b := bounds[i]
			if !weighed || b.Min == b.Max {
				continue
			}
			m := naiveMultiplier(w, h)
			if w.Name == BuildFailureWeigher {
				m = -m
			}
			c.Weight = float64(m*((x-b.Min)/(b.Max-b.Min))) + c.Weight
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Candidate) int {
		if a.Better(&b) {
			return -1
		}
		return 1
	})
	return list
}
