package schedule

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// scenario is a fleet, its split into cells, and a request.
type scenario struct {
	Cells      []string
	Hosts      []Host
	consumers  naiveConsumers
	Request    *Request
	Rules      *Rules
	Seed       uint64
	Instances  []ID
	Alternates int
}

func (s *scenario) String() string {
	return fmt.Sprintf("%d hosts in %d cells, %d instances, %d alternates\nrequest %+v\ngroup %+v\nrules %+v",
		len(s.Hosts), len(s.Cells), len(s.Instances), s.Alternates, *s.Request, s.Request.Group, *s.Rules)
}

// testID makes an ID from a kind and a number.
func testID(kind byte, n int) ID {
	var id ID
	id[0] = kind
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	// Spread the bits, as uuids do.
	binary.BigEndian.PutUint64(id[2:], Tie(uint64(kind), uint64(n)))
	return id
}

var (
	testTraits     = []string{"HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "STORAGE_DISK_SSD", "CUSTOM_GOLD"}
	testAggregates = []Aggregate{
		{UUID: "aaaaaaaa-0000-0000-0000-000000000001", Name: "az1", Metadata: map[string]string{"availability_zone": "az1"}},
		{UUID: "aaaaaaaa-0000-0000-0000-000000000002", Name: "az2", Metadata: map[string]string{"availability_zone": "az2"}},
		{UUID: "aaaaaaaa-0000-0000-0000-000000000003", Name: "ssd"},
		{UUID: "aaaaaaaa-0000-0000-0000-000000000004", Name: "gold", Metadata: map[string]string{"tier": "gold"}},
	}
	// overriding aggregates give their hosts multipliers and limits of their own.
	overriding = []Aggregate{
		{UUID: "aaaaaaaa-0000-0000-0000-000000000005", Metadata: map[string]string{
			"ram_weight_multiplier": "-1", "cpu_weight_multiplier": "0.5",
		}},
		{UUID: "aaaaaaaa-0000-0000-0000-000000000006", Metadata: map[string]string{
			"io_ops_weight_multiplier": "3", "disk_weight_multiplier": "x", "filter_tenant_id": "p1",
		}},
		{UUID: "aaaaaaaa-0000-0000-0000-000000000007", Metadata: map[string]string{
			"build_failure_weight_multiplier": "-2", "ram_weight_multiplier": "2", "max_instances_per_host": "6",
			"soft_anti_affinity_weight_multiplier": "4", "metrics_weight_multiplier": "-1",
		}},
	}
)

// drawScenario draws a scenario. rapid draws its shape, so that failures shrink. A seed gives the
// hosts' contents, for speed.
func drawScenario(t *rapid.T) *scenario {
	s := &scenario{consumers: naiveConsumers{}, Seed: rapid.Uint64().Draw(t, "tie seed")}
	for i := range evenly(1, 8).Draw(t, "cells") {
		s.Cells = append(s.Cells, testID('c', i).String())
	}
	n := rapid.OneOf(evenly(0, 12), evenly(0, 120), evenly(0, 120)).Draw(t, "hosts")
	// kinds is the number of different hosts: 1 gives a fleet of twins, where ties decide.
	kinds := rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(t, "kinds")
	scattered := rapid.Bool().Draw(t, "scattered")
	tight := sometimes(t, 4, "tight")
	seed := rapid.Uint64Range(0, 1<<20).Draw(t, "host seed")
	overrides := rapid.Bool().Draw(t, "overrides")
	usedCells := len(s.Cells)
	if sometimes(t, 4, "leave cells empty") {
		usedCells = max(1, usedCells/2)
	}
	for i := range n {
		cell := i * usedCells / max(n, 1)
		if scattered {
			cell = rand.New(rand.NewPCG(seed, uint64(i)+1<<32)).IntN(usedCells)
		}
		h := makeHost(rand.New(rand.NewPCG(seed, uint64(i))), seed, kinds, tight)
		h.UUID = testID('h', i)
		h.ServiceHost, h.NodeName = fmt.Sprintf("Host%03d", i), fmt.Sprintf("node%03d", i)
		if i > 0 && rand.New(rand.NewPCG(seed, uint64(i)+2<<32)).IntN(25) == 0 {
			h.ServiceHost = fmt.Sprintf("Host%03d", i-1)
		}
		h.Cell = s.Cells[cell]
		h.Namespaces = randomNamespaces(rand.New(rand.NewPCG(seed, uint64(i)+4<<32)))
		if own := rand.New(rand.NewPCG(seed, uint64(i)+3<<32)); overrides {
			h.Aggregates = append(slices.Clone(h.Aggregates), some(own, overriding, 0.3)...)
		}
		s.Hosts = append(s.Hosts, h)
	}
	s.drawRequest(t)
	s.drawRules(t)
	randomExpression(rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<20).Draw(t, "expression seed"), 3)), s.Request, s.Rules)
	for i := range rapid.OneOf(rapid.Just(1), evenly(1, 8)).Draw(t, "instances") {
		s.Instances = append(s.Instances, testID('i', i))
	}
	s.Alternates = evenly(0, 4).Draw(t, "alternates")
	s.drawGroup(t)
	return s
}

// makeHost makes a host of a random kind, one of kinds. Tight hosts fill up after one or two
// instances.
func makeHost(rng *rand.Rand, seed uint64, kinds int, tight bool) Host {
	kind := rng.IntN(kinds)
	k := rand.New(rand.NewPCG(seed^0xabcdef, uint64(kind)))
	cpus := []int64{8, 16, 64}[k.IntN(3)]
	ram := cpus * []int64{2048, 4096}[k.IntN(2)]
	disk := cpus * []int64{10, 40}[k.IntN(2)]
	load := k.Int64N(8)
	if tight {
		load = 6 + k.Int64N(2)
	}
	var h Host
	h.View = View{
		VCPUsTotal: cpus, CPURatio: []float64{1, 4, 1.37}[k.IntN(3)], VCPUsUsed: cpus * load / 8,
		FreeRAMMB: ram * (8 - load) / 8, FreeDiskMB: 1024 * disk * (8 - load) / 8,
		NumIOOps: k.Int64N(4), NumInstances: load, HypervisorVersion: []int64{6002000, 8001000}[k.IntN(2)],
	}
	if k.IntN(8) == 0 {
		h.View.PCIFree = k.Int64N(8)
	}
	if k.IntN(10) == 0 {
		h.View.FailedBuilds = k.Int64N(3)
	}
	if k.IntN(12) == 0 {
		h.View.FreeRAMMB -= ram
	}
	h.Resources = []Resource{
		{Class: "VCPU", Capacity: int64(float64(cpus) * h.View.CPURatio), Used: cpus * load / 8, MinUnit: 1, MaxUnit: cpus, StepSize: 1},
		{Class: "MEMORY_MB", Capacity: ram, Used: ram * load / 8, MinUnit: 1, MaxUnit: ram, StepSize: 256},
		{Class: "DISK_GB", Capacity: disk, Used: disk * load / 8, MinUnit: 1, MaxUnit: disk, StepSize: 1},
	}
	if k.IntN(3) == 0 {
		h.Resources = append(h.Resources, Resource{Class: "CUSTOM_FPGA", Capacity: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1})
	}
	for _, trait := range testTraits {
		if k.IntN(4) > 0 {
			h.Traits = append(h.Traits, trait)
		}
	}
	for _, a := range testAggregates {
		if k.IntN(3) == 0 {
			h.Aggregates = append(h.Aggregates, a)
		}
	}
	h.Disabled, h.Down = rng.IntN(20) == 0, rng.IntN(20) == 0
	h.Facts = kindFacts[k.IntN(len(kindFacts)-1)]
	if k.IntN(3) == 0 {
		h.Facts = oneOf(k, hardwareFacts)
	}
	return h
}

// evenly draws a number from low to high, all about equally likely. rapid's own ranges favour small
// numbers.
func evenly(low, high int) *rapid.Generator[int] {
	coins := rapid.SliceOfN(rapid.Bool(), bits.Len(uint(high-low))+3, bits.Len(uint(high-low))+3)
	return rapid.Custom(func(t *rapid.T) int {
		n := 0
		for _, up := range coins.Draw(t, "coins") {
			n *= 2
			if up {
				n++
			}
		}
		return low + n%(high-low+1)
	})
}

// sometimes is true once in n draws.
func sometimes(t *rapid.T, n int, what string) bool {
	return evenly(1, n).Draw(t, what) == n
}

func (s *scenario) drawRequest(t *rapid.T) {
	r := &Request{}
	cpus, ram, disk := rapid.Int64Range(1, 4).Draw(t, "vcpus"), 512*rapid.Int64Range(1, 8).Draw(t, "ram"), rapid.Int64Range(0, 20).Draw(t, "disk")
	r.Resources = []Amount{{"VCPU", cpus}, {"MEMORY_MB", ram}}
	if disk > 0 {
		r.Resources = append(r.Resources, Amount{"DISK_GB", disk})
	}
	r.Consume = Consumption{VCPUs: cpus, RAMMB: ram, DiskMB: 1024 * disk}
	if rapid.Bool().Draw(t, "picky") {
		r.drawPicky(t)
	}
	if sometimes(t, 4, "fallback") {
		r.Fallback = &Fallback{Resources: slices.Clone(r.Resources), Required: r.Required, Forbidden: r.Forbidden}
		r.Resources[0], r.Consume.VCPUs = Amount{"CUSTOM_FPGA", 1}, 0
		if i := slices.IndexFunc(r.Resources[1:], func(a Amount) bool { return a.Class == "CUSTOM_FPGA" }); i >= 0 {
			r.Resources = slices.Delete(r.Resources, i+1, i+2)
		}
	}
	s.Request = r
	if len(s.Hosts) > 0 {
		s.drawHostRules(t)
	}
	if sometimes(t, 3, "of Nova's") {
		rng := rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<20).Draw(t, "Nova's part"), 3))
		nowhere := func() string { return "nowhere" }
		if r.Nova = randomNova(rng, nowhere, nowhere); r.Nova != nil {
			r.Nova.Rebuild = false
		}
	}
}

// drawPicky draws demands that few hosts meet.
func (r *Request) drawPicky(t *rapid.T) {
	if sometimes(t, 12, "fpga") {
		r.Resources = append(r.Resources, Amount{"CUSTOM_FPGA", 1})
	}
	if sometimes(t, 5, "required") {
		r.Required = []string{rapid.SampledFrom(testTraits).Draw(t, "trait")}
	}
	if sometimes(t, 10, "forbidden") {
		r.Forbidden = []string{rapid.SampledFrom(testTraits).Draw(t, "trait")}
	}
	if sometimes(t, 10, "any of") {
		r.AnyOf = [][]string{testTraits[:2], testTraits[1:]}
	}
	if sometimes(t, 8, "member of") {
		r.MemberOf = [][]string{{testAggregates[0].UUID, testAggregates[2].UUID}}
	}
	if sometimes(t, 10, "forbidden aggregate") {
		r.ForbiddenAggregates = []string{testAggregates[3].UUID}
	}
	if sometimes(t, 6, "zone") {
		r.AvailabilityZone = rapid.SampledFrom([]string{"az1", "az2", "nova"}).Draw(t, "az")
	}
}

// drawHostRules draws rules that name hosts.
func (s *scenario) drawHostRules(t *rapid.T) {
	r := s.Request
	some := func(what string) []Host {
		return rapid.SliceOfN(rapid.SampledFrom(s.Hosts), 1, 6).Draw(t, what)
	}
	if sometimes(t, 8, "ignore") {
		for _, h := range some("ignored") {
			r.IgnoreHosts = append(r.IgnoreHosts, strings.ToUpper(h.ServiceHost))
		}
	}
	if sometimes(t, 8, "ignore uuids") {
		for _, h := range some("ignored by uuid") {
			r.IgnoreUUIDs = append(r.IgnoreUUIDs, h.UUID)
		}
	}
	if sometimes(t, 15, "force hosts") {
		for _, h := range some("forced") {
			r.ForceHosts = append(r.ForceHosts, strings.ToLower(h.ServiceHost))
		}
		r.CheckForced = rapid.Bool().Draw(t, "check forced")
	}
	if sometimes(t, 30, "force nodes") {
		for _, h := range some("forced") {
			r.ForceNodes = append(r.ForceNodes, h.NodeName)
		}
	}
	if sometimes(t, 10, "destination") {
		h := rapid.SampledFrom(s.Hosts).Draw(t, "to")
		d := &Destination{AllowCrossCellMove: rapid.Bool().Draw(t, "cross")}
		switch rapid.IntRange(0, 3).Draw(t, "which") {
		case 0:
			d.Host = h.ServiceHost
		case 1:
			d.Node = h.NodeName
		default:
			d.Cell = h.Cell
		}
		r.Destination = d
	}
}

func (s *scenario) drawRules(t *rapid.T) {
	s.Rules = &Rules{DefaultAvailabilityZone: "nova"}
	switch evenly(0, 3).Draw(t, "weighers") {
	case 0: // the defaults
	case 1:
		s.Rules.Weighers = PackWeighers()
	default:
		all := append(DefaultWeighers(), Weigher{NumInstancesWeigher, 0}, Weigher{MetricsWeigher, 1}, Weigher{ImagePropertiesWeigher, 1})
		for _, w := range rapid.Permutation(all).Draw(t, "order") {
			w.Multiplier = rapid.SampledFrom([]float64{-1, 1, 0, 0.3, -2.5, 1e6, w.Multiplier}).Draw(t, "multiplier")
			switch w.Name {
			case PCIWeigher, SoftAffinityWeigher, SoftAntiAffinityWeigher: // Nova allows no multiplier below 0
				w.Multiplier = max(0, w.Multiplier)
			}
			s.Rules.Weighers = append(s.Rules.Weighers, w)
		}
		s.Rules.Weighers = s.Rules.Weighers[:rapid.IntRange(1, len(all)).Draw(t, "weighers used")]
	}
	if sometimes(t, 3, "options") {
		rng := rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<20).Draw(t, "option seed"), 4))
		s.Rules.Options = randomOptions(rng, func() string { return "Host001" })
		if s.Rules.Options != nil {
			s.Rules.Options.MaxInstancesPerHost += 5
			s.Rules.Options.MaxIOOpsPerHost += 3
		}
	}
	if sometimes(t, 3, "one of several") {
		if s.Rules.Options == nil {
			s.Rules.Options = DefaultOptions()
		}
		s.Rules.Options.SubsetSize = evenly(2, 12).Draw(t, "subset")
	}
	if s.Request.Nova != nil && sometimes(t, 2, "cells and devices") {
		s.Rules.Filters = []string{HostFilter, ComputeFilter, ResourceFilter, NUMAFilter, PCIFilter}
		return
	}
	if sometimes(t, 6, "all filters") {
		for _, f := range Filters() {
			if sometimes(t, 4, f) {
				s.Rules.Filters = append(s.Rules.Filters, f)
			}
		}
		return
	}
	if sometimes(t, 8, "fewer filters") {
		order := rapid.Permutation(DefaultFilters()).Draw(t, "filters")
		s.Rules.Filters = order[:rapid.IntRange(1, len(order)).Draw(t, "filters used")]
	}
}

// drawGroup puts other instances on the hosts, some of them members of the
// group.
func (s *scenario) drawGroup(t *rapid.T) {
	policy := rapid.SampledFrom([]Policy{"", Affinity, AntiAffinity, SoftAffinity, SoftAntiAffinity}).Draw(t, "policy")
	if policy != "" {
		g := &Group{
			UUID: testID('g', 1), Policy: policy,
			MaxPerHost:   rapid.IntRange(0, 3).Draw(t, "max per host"),
			MembersExact: rapid.Bool().Draw(t, "exact members"),
		}
		if sometimes(t, 4, "no uuid") {
			g.UUID = ID{}
		}
		if rapid.Bool().Draw(t, "instances are members") {
			g.Members = slices.Clone(s.Instances)
		}
		if len(s.Hosts) > 0 && sometimes(t, 4, "known hosts") {
			g.Hosts = []string{rapid.SampledFrom(s.Hosts).Draw(t, "known").ServiceHost}
		}
		s.Request.Group = g
	}
	if len(s.Hosts) == 0 {
		return
	}
	on := rapid.OneOf(rapid.Just(0), evenly(0, 10), evenly(0, 80)).Draw(t, "others")
	for i := range on {
		c := Consumer{Instance: testID('o', i)}
		host := rapid.SampledFrom(s.Hosts).Draw(t, "other on")
		switch rapid.IntRange(0, 2).Draw(t, "other is") {
		case 0:
			c.Group = testID('g', 1)
		case 1:
			c.Group = testID('g', 2)
		case 2:
			if policy != "" {
				s.Request.Group.Members = append(s.Request.Group.Members, c.Instance)
			}
		}
		s.consumers[c.Instance] = naiveConsumer{Host: host.UUID, Consumer: c}
	}
	if len(s.Instances) == 1 && rapid.Bool().Draw(t, "moving") {
		s.drawMove(t)
	}
}

// drawMove makes the request a move: its instance is on one host or two, in the group or not.
func (s *scenario) drawMove(t *rapid.T) {
	s.Request.Moving = s.Instances[0]
	place := func(what string) Place {
		return Place{rapid.SampledFrom(s.Hosts).Draw(t, what).UUID, rapid.SampledFrom([]ID{{}, testID('g', 1)}).Draw(t, "its group")}
	}
	first := place("moves from")
	on := naiveConsumer{Host: first.Host, Consumer: Consumer{Instance: s.Instances[0], Group: first.Group}}
	if also := place("also on"); sometimes(t, 3, "doubled") && also.Host != on.Host {
		on.Also = []Place{also}
	}
	s.consumers[s.Instances[0]] = on
}

// cellHosts are the hosts of a cell.
func (s *scenario) cellHosts(cell int) []Host {
	var hosts []Host
	for _, h := range s.Hosts {
		if h.Cell == s.Cells[cell] {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// cellConsumers are the consumers on a cell's hosts.
func (s *scenario) cellConsumers(cell int) naiveConsumers {
	on := map[ID]bool{}
	for _, h := range s.cellHosts(cell) {
		on[h.UUID] = true
	}
	consumers := naiveConsumers{}
	for id, c := range s.consumers {
		for _, p := range c.places() {
			if !on[p.Host] {
				continue
			}
			here, known := consumers[id]
			if known {
				here.Also = append(here.Also, p)
			} else {
				here = naiveConsumer{Host: p.Host, Consumer: Consumer{Instance: id, Group: p.Group}}
			}
			consumers[id] = here
		}
	}
	return consumers
}

// Proposer answers queries as a cell does.
type Proposer func(q *Query) (*Proposal, error)

// NaiveCells gives for each of the scenario's cells an oracle that answers.
func (s *scenario) NaiveCells() []Proposer {
	cells := make([]Proposer, len(s.Cells))
	for c := range s.Cells {
		hosts, consumers := s.cellHosts(c), s.cellConsumers(c)
		cells[c] = func(q *Query) (*Proposal, error) { return naivePropose(hosts, consumers, q), nil }
	}
	return cells
}

// TableCells gives for each of the scenario's cells a Table that answers.
func (s *scenario) TableCells() []Proposer {
	cells := make([]Proposer, len(s.Cells))
	for c := range s.Cells {
		e := NewTable().Edit()
		for _, h := range s.cellHosts(c) {
			e.PutHost(h)
		}
		for _, x := range s.cellConsumers(c) {
			x.put(e)
		}
		cells[c] = e.Table().Propose
	}
	return cells
}

// OneScheduler is what one scheduler over all hosts picks.
func (s *scenario) OneScheduler() (picks []naivePick, failed int) { return s.losing(s.Request, -1, "") }

// OneSchedulerLosing is what it picks if it loses a cell's hosts after so many picks, though not the members of the
// group there, which are on the service hosts group.
func (s *scenario) OneSchedulerLosing(cell int, group []string, after int) (picks []naivePick, failed int) {
	request := *s.Request
	if g := request.Group; g != nil && group != nil {
		known := *g
		known.Hosts = append(slices.Clone(g.Hosts), group...)
		request.Group = &known
	}
	return s.losing(&request, after, s.Cells[cell])
}

func (s *scenario) losing(request *Request, after int, cell string) (picks []naivePick, failed int) {
	return naiveSelect(s.Hosts, s.consumers, request, s.Rules, s.Seed, s.Instances, s.Alternates, after, cell)
}

// GroupHosts are the service hosts of a cell with members of the group; nil without a group.
func (s *scenario) GroupHosts(cell int) []string {
	if s.Request.Group == nil {
		return nil
	}
	q := &Query{Request: s.Request, Rules: s.Rules, Limit: 1}
	var hosts []string
	for _, g := range naivePropose(s.cellHosts(cell), s.cellConsumers(cell), q).GroupHosts {
		hosts = append(hosts, g.ServiceHost)
	}
	return hosts
}

// FirstRejected is the index of the first pick that did not pass all filters when it was made; -1 if all passed.
func (s *scenario) FirstRejected(picks []ID) int {
	state, rules := newNaiveState(s.Hosts, s.consumers), naiveRules(s.Rules)
	for i, host := range picks {
		passed, _ := state.filter(s.Request, rules, state.groupHosts(s.Request))
		if !slices.ContainsFunc(passed, func(h *Host) bool { return h.UUID == host }) {
			return i
		}
		state.placeInstance(TentativePlacement{Host: host, Instance: s.Instances[i]}, s.Request)
	}
	return -1
}

// propChecks sets how many cases rapid tries in this test: -rapid.checks when
// given, else CELLGATE_PROP_CHECKS, else n.
func propChecks(t *testing.T, n int) {
	t.Helper()
	f := flag.Lookup("rapid.checks")
	given := false
	flag.Visit(func(v *flag.Flag) { given = given || v.Name == f.Name })
	if given {
		return
	}
	value, before := fmt.Sprint(n), f.Value.String()
	if env := os.Getenv("CELLGATE_PROP_CHECKS"); env != "" {
		value = env
	}
	if err := f.Value.Set(value); err != nil {
		t.Fatalf("CELLGATE_PROP_CHECKS: %v", err)
	}
	t.Cleanup(func() {
		if err := f.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}
