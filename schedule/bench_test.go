package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cellgate/internal/norace"
)

// benchHosts makes hosts like those of an aged fleet: four sizes, each host used differently.
func benchHosts(n int) []Host {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []struct{ cpus, ram, disk int64 }{{32, 128, 1000}, {64, 256, 2000}, {96, 512, 4000}, {128, 1024, 8000}}
	zones := []string{"az1", "az2", "az3"}
	hosts := make([]Host, n)
	for i := range hosts {
		size, zone := sizes[rng.IntN(4)], zones[rng.IntN(3)]
		cpus, ram, disk := size.cpus, size.ram*1024, size.disk
		capacity := cpus * 4
		usedCPU, usedRAM, usedDisk := rng.Int64N(capacity+1), rng.Int64N(ram/512+1)*512, rng.Int64N(disk+1)
		h := Host{
			UUID: testID('h', i), ServiceHost: fmt.Sprintf("compute-%05d", i), NodeName: fmt.Sprintf("compute-%05d.example", i),
			Cell: "cell", Disabled: rng.IntN(50) == 0, Down: rng.IntN(100) == 0,
			Traits:     []string{"COMPUTE_NODE", "HW_CPU_X86_SSE42"},
			Aggregates: []Aggregate{{UUID: "agg-" + zone, Metadata: map[string]string{"availability_zone": zone}}},
			Resources: []Resource{
				{Class: "VCPU", Capacity: capacity, Used: usedCPU, MinUnit: 1, MaxUnit: cpus, StepSize: 1},
				{Class: "MEMORY_MB", Capacity: ram, Used: usedRAM, MinUnit: 1, MaxUnit: ram, StepSize: 1},
				{Class: "DISK_GB", Capacity: disk, Used: usedDisk, MinUnit: 1, MaxUnit: disk, StepSize: 1},
			},
			View: View{
				VCPUsTotal: cpus, CPURatio: 4, VCPUsUsed: usedCPU, FreeRAMMB: ram - usedRAM, FreeDiskMB: (disk - usedDisk) * 1024,
				NumIOOps: rng.Int64N(6), NumInstances: rng.Int64N(60), HypervisorVersion: []int64{6002000, 8001000}[rng.IntN(2)],
			},
		}
		if rng.IntN(2) == 0 {
			h.Traits = append(h.Traits, "HW_CPU_X86_AVX2")
		}
		if rng.IntN(100) == 0 {
			h.View.FailedBuilds = 1
		}
		hosts[i] = h
	}
	return hosts
}

func benchQuery() *Query {
	return &Query{
		Request: &Request{
			Resources: []Amount{{"VCPU", 4}, {"MEMORY_MB", 8192}, {"DISK_GB", 40}},
			Consume:   Consumption{VCPUs: 4, RAMMB: 8192, DiskMB: 40960},
		},
		Rules: &Rules{DefaultAvailabilityZone: "nova"}, Seed: 42, Limit: 10,
	}
}

var benchSizes = []int{1000, 10_000, 100_000}

// BenchmarkPropose filters and ranks with the default filters and weighers, top 10.
func BenchmarkPropose(b *testing.B) {
	for _, n := range benchSizes {
		f := &fleet{hosts: benchHosts(n)}
		table := f.table()
		own := propose(b, table, benchQuery())
		for _, v := range []struct {
			name string
			set  func(*Query)
		}{
			{"plain", func(*Query) {}},
			{"trait", func(q *Query) { q.Request.Required = []string{"HW_CPU_X86_AVX2"} }},
			{"known", func(q *Query) { q.Known = &GlobalStats{Bounds: own.Bounds, Passed: int64(own.Passed)} }},
			{"pack", func(q *Query) { q.Rules.Weighers = PackWeighers() }},
			{"take", func(q *Query) {
				q.TentativePlacements = []TentativePlacement{{Host: own.Candidates[0].Host, Instance: testID('i', 1)}}
			}},
		} {
			b.Run(fmt.Sprintf("%s/hosts=%d", v.name, n), func(b *testing.B) {
				q := benchQuery()
				v.set(q)
				b.ReportAllocs()
				for b.Loop() {
					propose(b, table, q)
				}
			})
		}
	}
}

// BenchmarkProposeTwins is the worst case of the estimate: all hosts have the same weight, so none
// can be left out.
func BenchmarkProposeTwins(b *testing.B) {
	hosts := benchHosts(10_000)
	for i := range hosts {
		hosts[i].Resources, hosts[i].View = hosts[0].Resources, hosts[0].View
	}
	table := (&fleet{hosts: hosts}).table()
	q := benchQuery()
	b.ReportAllocs()
	for b.Loop() {
		propose(b, table, q)
	}
}

// BenchmarkProposeNaive is the baseline: the oracle that the tests compare with.
func BenchmarkProposeNaive(b *testing.B) {
	for _, n := range benchSizes {
		hosts := benchHosts(n)
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			q := benchQuery()
			b.ReportAllocs()
			for b.Loop() {
				naivePropose(hosts, nil, q)
			}
		})
	}
}

// BenchmarkEditClaims makes the next version of a table with 64 claims on random hosts.
func BenchmarkEditClaims(b *testing.B) {
	for _, n := range benchSizes[1:] {
		f := &fleet{hosts: benchHosts(n)}
		table := f.table()
		r := benchQuery().Request
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(3, 4))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := table.Edit()
				for k := range 64 {
					if !e.Take(TentativePlacement{Host: f.hosts[rng.IntN(n)].UUID, Instance: testID('i', i*64+k)}, r) {
						b.Fatal("no host")
					}
				}
				e.Table()
			}
		})
	}
}

// BenchmarkRegister adds each host in an edit of its own; ns/op is the time of one host.
func BenchmarkRegister(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		hosts := benchHosts(n)
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for i, t := 0, NewTable(); b.Loop(); i++ {
				if i%n == 0 {
					t = NewTable()
				}
				e := t.Edit()
				e.PutHost(hosts[i%n])
				t = e.Table()
			}
		})
	}
}

// The allocations of Propose do not grow with the number of hosts.
func TestProposeAllocatesNothingPerHost(t *testing.T) {
	norace.Skip(t, norace.Pure)
	for _, name := range []string{"plain", "known", "group"} {
		allocs := func(n int) float64 {
			f := &fleet{hosts: benchHosts(n), consumers: naiveConsumers{}}
			for i := range 20 {
				c := Consumer{Instance: testID('i', i), Group: testID('g', 1)}
				f.consumers[c.Instance] = naiveConsumer{Host: f.hosts[i*37].UUID, Consumer: c}
			}
			table, q := f.table(), benchQuery()
			switch name {
			case "known":
				own := propose(t, table, q)
				q.Known = &GlobalStats{Bounds: own.Bounds, Passed: int64(own.Passed)}
			case "group":
				q.Request.Group = &Group{UUID: testID('g', 1), Policy: SoftAntiAffinity}
			}
			return testing.AllocsPerRun(100, func() { propose(t, table, q) })
		}
		few, many := allocs(1000), allocs(10_000)
		t.Logf("%s: %.0f allocations for 1,000 hosts, %.0f for 10,000", name, few, many)
		// A garbage collection may empty the pool in between. The race detector sometimes empties
		// it on purpose.
		if many > few+8 || many > 100 {
			t.Errorf("%s: %.0f allocations for 1,000 hosts, %.0f for 10,000", name, few, many)
		}
	}
}
