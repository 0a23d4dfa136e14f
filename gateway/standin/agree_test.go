package standin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"cellgate/internal/testlong"
	"cellgate/internal/wire/wiretest"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// agreement is a world whose rows a real cell has, too, by the importer.
type agreement struct {
	*world
	cell *realCell
	// claims that the cell awaits.
	awaited []*cellv1.AwaitedClaim
}

const agreedHosts = 30

var ratios = []float64{1, 1, 1.5, 4, 16, 0.5}

// newAgreement makes hosts of all sorts, which Nova keeps amounts of for itself.
func newAgreement(t *testing.T, seed uint64) *agreement {
	w := newWorld(t, 0)
	w.cfg.Find = w.find
	w.rng = rand.New(rand.NewPCG(seed, 1))
	for n := range agreedHosts {
		w.add(n)
		w.random(n)
	}
	a := &agreement{world: w, cell: newCell(t)}
	a.cell.fill(w)
	w.update()
	for n := range 20 {
		c := newClaim(n, w.rng.IntN(agreedHosts))
		if !a.cell.claim(c) {
			continue
		}
		a.awaited = append(a.awaited, awaitedOf(c))
		if n%2 == 0 {
			w.Chose(c, w.at.Add(time.Hour))
		}
	}
	w.at = w.at.Add(time.Second)
	w.update(a.awaited...)
	return a
}

func (w *world) random(n int) {
	rng := w.rng
	r := w.rows[n]
	pick := func() *float64 { return &ratios[rng.IntN(len(ratios))] }
	r.VCPUs, r.MemoryMB, r.LocalGB = 1+rng.Int64N(64), 1024*(1+rng.Int64N(128)), 10+rng.Int64N(2000)
	free := r.LocalGB
	r.FreeRAMMB, r.FreeDiskGB = r.MemoryMB, &free
	r.CPUAllocationRatio, r.RAMAllocationRatio, r.DiskAllocationRatio = pick(), pick(), pick()
	r.HypervisorVersion = 6002000 + int64(n%3)
	r.service.Disabled = rng.IntN(10) == 0
	pci := fmt.Sprintf(`[{"count": %d, "vendor_id": "10de", "product_id": "1db6", "numa_node": 0, "tags": {}}]`, n%4)
	r.PCIStats = &pci
	arch := []string{"x86_64", "aarch64"}[n%2]
	r.CPUInfo, r.SupportedInstances = fmt.Sprintf(`{"arch": %q}`, arch), fmt.Sprintf(`[[%q, "kvm", "hvm"]]`, arch)
	w.aggregates[service(n)] = nil
	for k := range 3 {
		if rng.IntN(2) == 0 {
			w.aggregates[service(n)] = append(w.aggregates[service(n)], schedule.Aggregate{
				UUID: fmt.Sprintf("d0000000-0000-4000-8000-%012d", k), Name: fmt.Sprint("agg", k),
				Metadata: map[string]string{"availability_zone": fmt.Sprint("az", k%2), "cpu_allocation_ratio": "2"},
			})
		}
	}
	for range rng.IntN(5) {
		w.place(n, rng.Int64N(9), 512*rng.Int64N(20), rng.Int64N(50))
	}
	w.use(n, rng.Int64N(4), rng.Int64N(2000), rng.Int64N(30))
}

// instance is one of the cell's, or one that is not.
func (a *agreement) instance() schedule.ID {
	if a.rng.IntN(3) == 0 {
		return instanceID(a.rng.IntN(20))
	}
	return schedule.ID{0xcd, 15: byte(1 + a.rng.IntN(a.placed+2))}
}

// query is a random one.
func (a *agreement) query() *schedule.Query {
	rng := a.rng
	some := func(of ...string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(string) bool { return rng.IntN(2) == 0 })
	}
	r := &schedule.Request{Nova: &schedule.NovaRequest{}}
	f := &r.Nova.Flavor
	f.VCPUs, f.MemoryMB, f.RootGB = rng.Int64N(16), 512*rng.Int64N(40), rng.Int64N(100)
	for _, x := range []schedule.Amount{{Class: vcpu, N: f.VCPUs}, {Class: memoryMB, N: f.MemoryMB}, {Class: diskGB, N: f.RootGB}} {
		if x.N > 0 && rng.IntN(4) > 0 {
			r.Resources = append(r.Resources, x)
		}
	}
	r.Consume = schedule.Consumption{VCPUs: f.VCPUs, RAMMB: f.MemoryMB, DiskMB: f.RootGB * 1024}
	host := func() string { return service(rng.IntN(agreedHosts)) }
	for _, part := range []func(){
		func() { r.AvailabilityZone = []string{"az0", "az1", "nova"}[rng.IntN(3)] },
		func() { r.MemberOf = [][]string{some(aggregateID(0), aggregateID(1), aggregateID(2), aggregateID(9))} },
		func() { r.ForbiddenAggregates = some(aggregateID(0), aggregateID(2)) },
		func() { r.IgnoreHosts = []string{host(), host()} },
		func() { r.ForceHosts = []string{host(), host(), host()} },
		func() { r.Destination = &schedule.Destination{Host: host()} },
		func() { r.Required = []string{"HW_CPU_X86_AVX2"} },
		func() { r.Forbidden = []string{"HW_CPU_X86_AVX2"} },
		func() { r.Resources = append(r.Resources, schedule.Amount{Class: "PCPU", N: 1}) },
		func() { r.Moving = a.instance() },
		func() {
			r.Group = &schedule.Group{
				UUID: schedule.ID{1}, MaxPerHost: rng.IntN(3), Members: []schedule.ID{a.instance(), a.instance(), a.instance()},
				Policy: []schedule.Policy{schedule.Affinity, schedule.AntiAffinity, schedule.SoftAffinity, schedule.SoftAntiAffinity}[rng.IntN(4)],
			}
			if rng.IntN(2) == 0 {
				r.Group.Hosts = []string{host()}
			}
		},
		func() {
			name := []string{"same_host", "different_host"}[rng.IntN(2)]
			r.Nova.Hints = append(r.Nova.Hints, schedule.Hint{Name: name, Values: []string{a.instance().String(), a.instance().String()}})
		},
		func() {
			r.Nova.Hints = append(r.Nova.Hints, schedule.Hint{Name: "query", Values: []string{
				fmt.Sprintf(`["and", [">=", "$free_ram_mb", 20000], ["<", "$disk_mb_used", %d]]`, 1024*rng.IntN(150)),
			}})
		},
		func() {
			r.Nova.PCI = []schedule.PCIRequest{{Count: 1 + rng.Int64N(2), Specs: []schedule.PCISpec{{{Key: "vendor_id", Value: "10de"}}}}}
		},
		func() {
			r.Nova.Image = &schedule.Image{ID: "i", Properties: []schedule.Property{{Name: "hw_architecture", Text: "aarch64"}}}
		},
	} {
		if rng.IntN(8) == 0 {
			part()
		}
	}
	q := &schedule.Query{Request: r, Seed: rng.Uint64(), Limit: 1 + rng.IntN(agreedHosts), Rules: &schedule.Rules{DefaultAvailabilityZone: "nova"}}
	if rng.IntN(4) > 0 {
		q.Rules.Filters = append(some(
			schedule.ZoneFilter, schedule.AggregateFilter, schedule.TraitFilter, schedule.ComputeFilter, schedule.IoOpsFilter, schedule.NumInstancesFilter, schedule.CoreFilter,
			schedule.RAMFilter, schedule.DiskFilter, schedule.AggregateCoreFilter, schedule.AggregateDiskFilter, schedule.ExactCoreFilter, schedule.ImageFilter, schedule.JSONFilter,
			schedule.SameHostFilter, schedule.DifferentHostFilter, schedule.AffinityFilter, schedule.AntiAffinityFilter, schedule.PCIFilter,
		), schedule.ResourceFilter)
		q.Rules.Filters = slices.DeleteFunc(q.Rules.Filters, func(f string) bool { return f == schedule.ExactCoreFilter && rng.IntN(8) > 0 })
	}
	for _, w := range schedule.PackWeighers() {
		if rng.IntN(2) == 0 {
			w.Multiplier = 4*rng.Float64() - 2
			switch w.Name { // Nova refuses them below 0.
			case schedule.PCIWeigher, schedule.SoftAffinityWeigher, schedule.SoftAntiAffinityWeigher:
				w.Multiplier = 4 * rng.Float64()
			}
			q.Rules.Weighers = append(q.Rules.Weighers, w)
		}
	}
	return q
}

func aggregateID(k int) string { return fmt.Sprintf("d0000000-0000-4000-8000-%012d", k) }

// answers gives the stand-in's and the cell's.
func (a *agreement) answers(q *schedule.Query) (here, there *cellv1.Proposal) {
	a.Helper()
	asked := wiretest.Query(q, "", nil)
	for n := range agreedHosts {
		id := hostID(n)
		asked.RoomOf = append(asked.RoomOf, id[:]...)
	}
	out, err := a.cell.ProposeBatch(a.Context(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{asked}})
	if err != nil {
		a.Fatal(err)
	}
	here, there = a.raw(asked), out.GetProposals()[0]
	here.TableVersion, there.TableVersion = "", ""
	a.sameRooms(here.GetRooms(), there.GetRooms())
	here.Rooms, there.Rooms = nil, nil
	return here, there
}

// sameRooms: each host has as much free in the shard as by its row.
func (a *agreement) sameRooms(here, there []*cellv1.HostRoom) {
	a.Helper()
	if len(here) != agreedHosts || len(there) != agreedHosts {
		a.Fatalf("%d and %d hosts say what they have free", len(here), len(there))
	}
	for i, h := range here {
		for k, r := range h.GetRooms() {
			in := there[i].GetRooms()[k]
			if in.GetResourceClass() != r.GetResourceClass() || in.GetAmount() != r.GetAmount() {
				a.Errorf("host %d: %v by the rows, %v by the shard", i, r, in)
			}
		}
	}
}

// TestI6_StandInAnswersAsTheCell: a cell whose shard the importer filled, and the
// stand-in, have the same rows, and the same claims that no report has; they answer
// random queries with the same proposals, byte for byte, with picks and knowledge of
// other cells, too. And what the best candidate is asked for, the shard takes.
func TestI6_StandInAnswersAsTheCell(t *testing.T) {
	asked, some, none, claimed := 0, 0, 0, 0
	seeds := uint64(2)
	if testlong.On() {
		seeds = 6
	}
	for seed := range seeds {
		a := newAgreement(t, seed)
		if len(a.awaited) < 5 {
			t.Errorf("only %d claims are awaited", len(a.awaited))
		}
		for k := range 150 {
			q := a.query()
			var best *schedule.Proposal
			for round := range 3 {
				here, there := a.answers(q)
				if !proto.Equal(here, there) {
					t.Fatalf("seed %d, query %d, round %d of %+v, %+v:\nthe stand-in answers\n%s\nthe cell\n%s", seed, k, round, q.Request, q.Rules, prototext.Format(here), prototext.Format(there))
				}
				asked++
				p := a.ask(q)
				if round == 0 {
					best = p
				}
				if len(p.Candidates) == 0 {
					none++
					break
				}
				some++
				q.Takes = append(q.Takes, schedule.Take{Host: p.Candidates[a.rng.IntN(len(p.Candidates))].Host, Instance: schedule.ID{0xee, byte(round)}})
				q.Known = &schedule.GlobalStats{Bounds: slices.Clone(p.Bounds), Passed: int64(p.Passed + 1)}
			}
			r := q.Request
			judged := len(q.Rules.Filters) == 0 || slices.Contains(q.Rules.Filters, schedule.ComputeFilter)
			if k%5 == 0 && len(best.Candidates) > 0 && judged && !r.Forced() && len(r.Resources) > 0 && r.Group == nil && r.Nova.PCI == nil {
				c := newClaim(100+k, 0)
				c.HostUuid, c.Allocations = best.Candidates[0].Host.String(), nil
				for _, x := range q.Request.Resources {
					c.Allocations = append(c.Allocations, allocation(c.GetHostUuid(), x))
				}
				if !a.cell.claim(c) {
					t.Fatalf("seed %d, query %d: the shard does not take %v", seed, k, c)
				}
				claimed++
				a.Chose(c, a.at.Add(time.Hour))
			}
		}
	}
	t.Logf("%d answers, %d with hosts, %d without, %d claims", asked, some, none, claimed)
	if some < asked/4 || none < asked/20 || claimed < 5 {
		t.Errorf("of %d answers %d had hosts and %d none, %d claims: they are no test", asked, some, none, claimed)
	}
}
