package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"cellgate/internal/norace"
)

// richHosts are benchHosts with facts like those of real hosts: four kinds of machines, stats of
// their own, and three of 40 aggregates with metadata.
func richHosts(n int) []Host {
	hosts := benchHosts(n)
	rng := rand.New(rand.NewPCG(5, 6))
	var aggregates []Aggregate
	for i := range 40 {
		m := map[string]string{"tier": fmt.Sprint(i % 4), "cpu_gen": fmt.Sprint(5 + i%3)}
		for k := range 8 {
			m[fmt.Sprintf("key%d", (i+k)%12)] = oneOf(rng, []string{"true", "true,false"})
		}
		aggregates = append(aggregates, Aggregate{UUID: fmt.Sprintf("agg-%02d", i), Metadata: m})
	}
	cpus := []string{"Cascadelake-Server", "Icelake-Server", "EPYC-Rome", "EPYC-Milan"}
	for i := range hosts {
		kind := rng.IntN(4)
		hosts[i].Facts = ParseFacts(FactTexts{
			HypervisorType: "QEMU", HypervisorHostname: hosts[i].NodeName, HostIP: fmt.Sprintf("10.0.%d.%d", i/250%250, i%250),
			CPUInfo: fmt.Sprintf(`{"arch": "x86_64", "model": %q, "vendor": "Intel", "topology": {"cells": 2, "sockets": 1,
				"cores": %d, "threads": 2}, "features": ["aes", "avx", "avx2", "avx512f", "pdpe1gb", "ssse3", "vmx"]}`, cpus[kind], 16<<kind%3),
			SupportedInstances: `[["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]`,
			Stats:              fmt.Sprintf(`{"num_vm_active": "%d", "num_instances": "%d", "rack": "r%d", "io_workload": "0"}`, i%60, i%60, i%40),
			Metrics:            fmt.Sprintf(`[{"name": "cpu.percent", "value": 0.%02d}]`, i%100),
		})
		// Hosts of a rack share their aggregates, as is usual in a cloud.
		rack := rand.New(rand.NewPCG(uint64(i/40), 7))
		for _, k := range rack.Perm(len(aggregates))[:3] {
			hosts[i].Aggregates = append(hosts[i].Aggregates, aggregates[k])
		}
	}
	return hosts
}

// novaCases are queries that Nova's own filters and weighers read, some of them costly.
var novaCases = []struct {
	name string
	set  func(*Query)
}{
	// Nova's defaults, with a typical image and flavor.
	{"defaults", func(q *Query) {
		q.Request.Nova = &NovaRequest{
			Flavor: Flavor{Name: "m1", ExtraSpecs: []Pair{{"capabilities:cpu_info:arch", "x86_64"}}},
			Image:  &Image{Properties: []Property{{Name: "hw_architecture", Text: "x86_64"}, {Name: "hw_vm_mode", Text: "hvm"}}},
		}
	}},
	{"12 extra specs", func(q *Query) {
		q.Rules.Filters = append(DefaultFilters(), AggregateExtraSpecsFilter)
		q.Request.Nova = &NovaRequest{Flavor: Flavor{Name: "m1"}}
		for i := range 6 {
			q.Request.Nova.Flavor.ExtraSpecs = append(q.Request.Nova.Flavor.ExtraSpecs,
				Pair{fmt.Sprintf("aggregate_instance_extra_specs:key%d", 2*i), "<or> true <or> false"})
		}
		q.Request.Nova.Flavor.ExtraSpecs = append(q.Request.Nova.Flavor.ExtraSpecs,
			Pair{"aggregate_instance_extra_specs:tier", "<= 3"}, Pair{"capabilities:cpu_info:features", "<all-in> avx vmx"},
			Pair{"capabilities:cpu_info:topology:cores", ">= 16"}, Pair{"capabilities:num_vm_active", "<= 50"},
			Pair{"capabilities:rack", "<or> r1 <or> r2 <or> r3 <or> r4 <or> r5 <or> r6"}, Pair{"capabilities:free_ram_mb", ">= 8192"})
	}},
	{"every filter", func(q *Query) {
		q.Rules.Filters = Filters()
		q.Request.Nova = &NovaRequest{
			Flavor:    Flavor{Name: "m1", VCPUs: 4, MemoryMB: 8192, RootGB: 40},
			ProjectID: "p", Hints: []Hint{{"query", []string{`["and", [">=", "$free_ram_mb", 8192], ["<", "$num_instances", 50]]`}}},
		}
	}},
	{"metrics", func(q *Query) {
		q.Rules.Options = DefaultOptions()
		q.Rules.Options.MetricsSetting = []Ratio{{"cpu.percent", -1}}
		q.Rules.Weighers = append(DefaultWeighers(), Weigher{MetricsWeigher, 1})
	}},
}

// BenchmarkProposeNova measures Propose, top 10, for requests that Nova's own filters read.
func BenchmarkProposeNova(b *testing.B) {
	for _, n := range benchSizes[1:] {
		table := (&fleet{hosts: richHosts(n)}).table()
		for _, c := range novaCases {
			b.Run(fmt.Sprintf("%s/hosts=%d", c.name, n), func(b *testing.B) {
				q := benchQuery()
				c.set(q)
				b.ReportAllocs()
				for b.Loop() {
					propose(b, table, q)
				}
			})
		}
	}
}

// NovaBench gives cells of so many hosts each, and a query with Nova's default filters and a typical image and flavor.
func NovaBench(cells, hosts int) (list []Proposer, q *Query) {
	all := richHosts(cells * hosts)
	for c := range cells {
		list = append(list, (&fleet{hosts: all[c*hosts : (c+1)*hosts]}).table().Propose)
	}
	q = benchQuery()
	novaCases[0].set(q)
	return list, q
}

// BenchmarkProposeMultipliers measures Propose where aggregates override a multiplier: no rack, or
// each with one of ways values.
func BenchmarkProposeMultipliers(b *testing.B) {
	for _, ways := range []int{0, 1, 4, 40} {
		hosts := richHosts(10_000)
		for i := range hosts {
			if ways == 0 {
				break
			}
			hosts[i].Aggregates = append(hosts[i].Aggregates, Aggregate{
				UUID: fmt.Sprintf("own-%d", i/40%ways), Metadata: map[string]string{"ram_weight_multiplier": fmt.Sprint(2 + i/40%ways)},
			})
		}
		table := (&fleet{hosts: hosts}).table()
		b.Run(fmt.Sprintf("ways=%d", ways), func(b *testing.B) {
			q := benchQuery()
			b.ReportAllocs()
			for b.Loop() {
				propose(b, table, q)
			}
		})
	}
}

// BenchmarkProposeGroup measures Propose for an anti-affinity group of 500.
func BenchmarkProposeGroup(b *testing.B) {
	f := &fleet{hosts: richHosts(10_000), consumers: naiveConsumers{}}
	for i := range 500 {
		c := Consumer{Instance: testID('i', i), Group: testID('g', 1)}
		f.consumers[c.Instance] = naiveConsumer{Host: f.hosts[i*19].UUID, Consumer: c}
	}
	table, q := f.table(), benchQuery()
	q.Request.Group = &Group{UUID: testID('g', 1), Policy: AntiAffinity}
	for i := range 500 {
		q.Request.Group.Members = append(q.Request.Group.Members, testID('i', i))
	}
	b.ReportAllocs()
	for b.Loop() {
		propose(b, table, q)
	}
}

// The allocations of Propose for Nova's filters do not grow with the number of hosts, except for
// host texts that are unique and must be compared.
func TestNovaFiltersAllocateNothingPerHost(t *testing.T) {
	norace.Skip(t, norace.Pure)
	for _, c := range novaCases {
		allocs := func(n int) float64 {
			table, q := (&fleet{hosts: richHosts(n)}).table(), benchQuery()
			c.set(q)
			return testing.AllocsPerRun(20, func() { propose(t, table, q) })
		}
		few, many := allocs(1000), allocs(5000)
		t.Logf("%s: %.0f allocations for 1,000 hosts, %.0f for 5,000", c.name, few, many)
		if many > 2*few+100 {
			t.Errorf("%s: %.0f allocations for 1,000 hosts, %.0f for 5,000", c.name, few, many)
		}
	}
}
