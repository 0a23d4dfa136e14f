package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"
)

// fleet has the hosts of a table and their consumers.
type fleet struct {
	hosts     []Host
	consumers naiveConsumers
}

func (f *fleet) table() *Table {
	e := NewTable().Edit()
	for _, h := range f.hosts {
		e.PutHost(h)
	}
	for _, c := range f.consumers {
		c.put(e)
	}
	return e.Table()
}

var (
	fleetTraits  = []string{"T0", "T1", "T2", "T3", "T4"}
	fleetClasses = []string{"VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_X"}
	fleetCells   = []string{"cell-a", "cell-b"}
	fleetZones   = []string{"", "az1", "az2", "nova"}
)

func oneOf[T any](rng *rand.Rand, of []T) T { return of[rng.IntN(len(of))] }

// some gives each element with probability p.
func some[T any](rng *rand.Rand, of []T, p float64) (list []T) {
	for _, x := range of {
		if rng.Float64() < p {
			list = append(list, x)
		}
	}
	return list
}

func fleetHost(i int) ID     { return testID('h', i) }
func fleetInstance(i int) ID { return testID('i', i) }
func fleetGroup(i int) ID    { return testID('g', i) }

func fleetAggregates(rng *rand.Rand) (list []Aggregate) {
	for i, zone := range fleetZones {
		if rng.IntN(3) > 0 {
			continue
		}
		a := Aggregate{UUID: fmt.Sprintf("agg%d", i), Name: "n" + zone, Metadata: map[string]string{"k": "v"}}
		if zone != "" {
			a.Metadata["availability_zone"] = zone
		}
		if rng.IntN(3) == 0 {
			novaMetadata(rng, a.Metadata)
		}
		list = append(list, a)
	}
	return list
}

// randomHost makes host i. Its amounts are small, so that hosts are often full, equal or just large
// enough.
func randomHost(rng *rand.Rand, i int) Host {
	h := Host{
		UUID:        fleetHost(i),
		ServiceHost: fmt.Sprintf("Host-%d", i/(1+rng.IntN(3))),
		NodeName:    fmt.Sprintf("node-%d", i),
		Cell:        oneOf(rng, fleetCells),
		Disabled:    rng.IntN(8) == 0,
		Down:        rng.IntN(8) == 0,
		Traits:      some(rng, fleetTraits, 0.8),
		Aggregates:  fleetAggregates(rng),
		View:        randomView(rng),
		Facts:       oneOf(rng, kindFacts),
	}
	if rng.IntN(8) == 0 {
		h.Withheld = oneOf(rng, []string{"in maintenance: a kernel", "disabled by operator: a disk"})
	}
	h.Namespaces = randomNamespaces(rng)
	if rng.IntN(6) == 0 {
		h.Facts = oneOf(rng, hardwareFacts)
	}
	if h.Facts != nil && h.Facts.Failed != nil && rng.IntN(4) > 0 {
		h.Facts = nil
	}
	if rng.IntN(5) == 0 {
		h.ServiceHost = fmt.Sprintf("HOST-%d", i/2)
	}
	for _, class := range some(rng, fleetClasses, 0.9) {
		r := Resource{Class: class, Capacity: rng.Int64N(24), Used: rng.Int64N(8), MinUnit: 1, MaxUnit: 1 << 40, StepSize: 1}
		switch rng.IntN(6) {
		case 0:
			r.MaxUnit = rng.Int64N(6)
		case 1:
			r.MinUnit = rng.Int64N(4)
		case 2:
			r.StepSize = 1 + rng.Int64N(3)
		}
		h.Resources = append(h.Resources, r)
	}
	return h
}

func randomView(rng *rand.Rand) View {
	return View{
		TotalRAMMB: rng.Int64N(3) * 4000, RAMRatio: oneOf(rng, []float64{1, 1.5}),
		TotalDiskGB: rng.Int64N(3) * 4, DiskRatio: oneOf(rng, []float64{1, 2}),
		VCPUsTotal: rng.Int64N(4) * 8, CPURatio: oneOf(rng, []float64{0, 1, 1.1, 16}), VCPUsUsed: rng.Int64N(40),
		FreeRAMMB: rng.Int64N(10)*1000 - 2000, FreeDiskMB: rng.Int64N(3) * 4096, NumIOOps: rng.Int64N(4) - 1,
		NumInstances: rng.Int64N(4), PCIFree: oneOf(rng, []int64{0, 0, 3, 150}),
		HypervisorVersion: 2012000 + rng.Int64N(2)*1000, FailedBuilds: rng.Int64N(12) / 10,
	}
}

func drawFleet(t *rapid.T) *fleet {
	n := rapid.OneOf(evenly(0, 4), evenly(0, 70), evenly(0, 300)).Draw(t, "hosts")
	twins := rapid.Bool().Draw(t, "twins")
	rng := rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<30).Draw(t, "fleet seed"), 1))
	f := &fleet{consumers: naiveConsumers{}}
	for i := range n {
		h := randomHost(rng, i)
		if twins && i > 0 {
			was := f.hosts[rng.IntN(i)]
			h.Resources, h.View, h.Traits, h.Facts, h.Namespaces = was.Resources, was.View, was.Traits, was.Facts, was.Namespaces
		}
		f.hosts = append(f.hosts, h)
	}
	for i := range min(n, 40) * 2 {
		c := Consumer{Instance: fleetInstance(i), Flavor: oneOf(rng, []string{"", "1", "1", "2"})}
		if rng.IntN(2) == 0 {
			c.Image = randomImage(rng)
		}
		if rng.IntN(2) == 0 {
			c.Group = fleetGroup(rng.IntN(3))
		}
		on := naiveConsumer{Host: f.hosts[rng.IntN(n)].UUID, Consumer: c}
		if also := f.hosts[rng.IntN(n)].UUID; rng.IntN(6) == 0 && also != on.Host {
			on.Also = []Place{{also, oneOf(rng, []ID{{}, c.Group, fleetGroup(1)})}}
		}
		f.consumers[c.Instance] = on
	}
	return f
}

// drawQuery draws a query of a fleet.
func drawQuery(t *rapid.T, f *fleet) *Query {
	rng := rand.New(rand.NewPCG(rapid.Uint64Range(0, 1<<30).Draw(t, "query seed"), 2))
	often := rapid.SampledFrom([]float64{0, 0.15, 0.5}).Draw(t, "often")
	maybe := func() bool { return rng.Float64() < often }
	rare := func() bool { return rng.Float64() < often*often }
	r := &Request{Consume: Consumption{VCPUs: rng.Int64N(3), RAMMB: rng.Int64N(900), DiskMB: rng.Int64N(3) * 1024}}
	for _, class := range some(rng, fleetClasses, 0.5) {
		r.Resources = append(r.Resources, Amount{class, 1 + rng.Int64N(5)})
	}
	traits, aggregates := append(fleetTraits, "NOWHERE"), []string{"agg0", "agg1", "agg2", "agg3", "nowhere"}
	host := func() string {
		return fmt.Sprintf(oneOf(rng, []string{"host-%d", "HOST-%d", "Host-%d"}), rng.IntN(len(f.hosts)+1))
	}
	if maybe() {
		r.Required = some(rng, traits, 0.2)
	}
	if maybe() {
		r.Forbidden = some(rng, traits, 0.2)
	}
	for maybe() {
		r.AnyOf = append(r.AnyOf, some(rng, traits, 0.4))
	}
	if rng.IntN(4) == 0 {
		// The fallback repeats some demands and replaces others.
		r.Fallback = &Fallback{Resources: slices.Clone(r.Resources), Required: some(rng, r.Required, 0.5), Forbidden: some(rng, traits, 0.2)}
		for i := range r.Fallback.Resources {
			if rng.IntN(2) == 0 {
				r.Fallback.Resources[i].N = 1 + rng.Int64N(3)
			}
		}
		if len(r.Fallback.Resources) > 1 && rng.IntN(2) == 0 {
			r.Fallback.Resources = r.Fallback.Resources[1:]
		}
	}
	for maybe() {
		r.MemberOf = append(r.MemberOf, some(rng, aggregates, 0.5))
	}
	if maybe() {
		r.ForbiddenAggregates = some(rng, aggregates, 0.3)
	}
	if maybe() {
		r.AvailabilityZone = oneOf(rng, append(fleetZones, "nowhere"))
	}
	for maybe() {
		r.IgnoreHosts = append(r.IgnoreHosts, host())
	}
	for maybe() {
		id := ID{0xff} // the id of no host
		if n := rng.IntN(len(f.hosts) + 1); n < len(f.hosts) {
			id = f.hosts[n].UUID
		}
		r.IgnoreUUIDs = append(r.IgnoreUUIDs, id)
	}
	for rare() {
		r.ForceHosts = append(r.ForceHosts, host(), host(), host())
	}
	for rare() {
		r.ForceNodes = append(r.ForceNodes, fmt.Sprintf("node-%d", rng.IntN(len(f.hosts)+1)))
	}
	r.CheckForced = rng.IntN(3) == 0
	if maybe() {
		r.Destination = &Destination{AllowCrossCellMove: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			r.Destination.Cell = oneOf(rng, append(fleetCells, "nowhere"))
		}
		if rng.IntN(4) == 0 {
			r.Destination.Host = host()
		}
		if rng.IntN(6) == 0 {
			r.Destination.Node = fmt.Sprintf("node-%d", rng.IntN(len(f.hosts)+1))
		}
	}
	if rng.IntN(2) == 0 {
		g := &Group{
			Policy:     oneOf(rng, []Policy{Affinity, AntiAffinity, SoftAffinity, SoftAntiAffinity}),
			MaxPerHost: rng.IntN(4), MembersExact: rng.IntN(2) == 0,
		}
		if rng.IntN(4) > 0 {
			g.UUID = fleetGroup(rng.IntN(4))
		}
		for range rng.IntN(10) {
			g.Members = append(g.Members, fleetInstance(rng.IntN(100)))
		}
		if maybe() {
			g.Hosts = []string{host(), host()}
		}
		r.Group = g
	}
	if rng.IntN(3) == 0 {
		r.Moving = fleetInstance(rng.IntN(100))
		if r.Group != nil && rng.IntN(2) == 0 {
			r.Group.Members = append(r.Group.Members, r.Moving)
		}
	}
	r.Nova = randomNova(rng, host, func() string { return fmt.Sprintf("node-%d", rng.IntN(len(f.hosts)+1)) })
	q := &Query{
		Request: r, Rules: randomRules(rng, host), Seed: rng.Uint64N(4),
		Limit: rapid.SampledFrom([]int{1, 3, 10, 1000}).Draw(t, "limit"),
	}
	randomExpression(rng, r, q.Rules)
	if len(f.hosts) > 0 && maybe() {
		for i := range 1 + rng.IntN(4) {
			q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: oneOf(rng, f.hosts).UUID, Instance: fleetInstance(90 + i)})
		}
		q.TentativePlacements = append(q.TentativePlacements, TentativePlacement{Host: fleetHost(1e6), Instance: fleetInstance(99)})
	}
	if rng.IntN(2) == 0 {
		q.Known = randomStats(rng, q.Rules, host)
	}
	return q
}

func randomRules(rng *rand.Rand, host func() string) *Rules {
	rules := &Rules{DefaultAvailabilityZone: "nova", Options: randomOptions(rng, host)}
	if of := rng.IntN(3); of > 0 {
		rules.Filters = some(rng, DefaultFilters(), 0.8)
		if of == 2 {
			rules.Filters = some(rng, Filters(), 0.3)
		}
		rng.Shuffle(len(rules.Filters), func(i, j int) {
			rules.Filters[i], rules.Filters[j] = rules.Filters[j], rules.Filters[i]
		})
	}
	if rng.IntN(4) > 0 {
		all := append(DefaultWeighers(), Weigher{NumInstancesWeigher, 1}, Weigher{MetricsWeigher, 1}, Weigher{ImagePropertiesWeigher, 1})
		rules.Weighers = some(rng, all, 0.7)
		for i := range rules.Weighers {
			w := &rules.Weighers[i]
			w.Multiplier = oneOf(rng, []float64{0, 1, 1, 2.5, 1e6, 0.1, -1, -0.3})
			switch w.Name {
			case PCIWeigher, SoftAffinityWeigher, SoftAntiAffinityWeigher:
				w.Multiplier = max(0, w.Multiplier)
			}
		}
	}
	return rules
}

// randomStats may be far from the truth, like an outdated hint.
func randomStats(rng *rand.Rand, rules *Rules, host func() string) *GlobalStats {
	k := &GlobalStats{Passed: rng.Int64N(4)}
	if rng.IntN(3) == 0 {
		k.GroupHostsKnown = true
		if rng.IntN(2) == 0 {
			k.GroupHosts = []string{host(), host()}
		}
	}
	if rng.IntN(4) == 0 {
		return k
	}
	for range rules.weighers() {
		low := float64(rng.IntN(4)) * 0.7
		k.Bounds = append(k.Bounds, Bounds{Min: low, Max: low + oneOf(rng, []float64{0, 1, 3, 9000, 2013000})})
	}
	return k
}
