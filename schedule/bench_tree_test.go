package schedule

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cellgate/internal/norace"
)

// Classes and traits of a tree as Nova, Neutron and Cyborg report it: two GPUs, an agent of bridges
// and one of NICs. Each agent has two devices with bandwidth.
const (
	benchEgress  = "NET_BW_EGR_KILOBIT_PER_SEC"
	benchIngress = "NET_BW_IGR_KILOBIT_PER_SEC"
	benchNormal  = "CUSTOM_VNIC_TYPE_NORMAL"
	benchDirect  = "CUSTOM_VNIC_TYPE_DIRECT"
)

// treeHosts are richHosts with such trees, each used differently.
func treeHosts(n int) []Host {
	hosts := richHosts(n)
	rng := rand.New(rand.NewPCG(8, 9))
	for i := range hosts {
		h, made := &hosts[i], 0
		add := func(parent ID, traits []string, resources ...Resource) ID {
			made++
			id := testID('p', i*16+made)
			h.Children = append(h.Children, Provider{UUID: id, Parent: parent, Traits: traits, Resources: resources})
			return id
		}
		some := func(class string, capacity int64) Resource {
			return Resource{Class: class, Capacity: capacity, Used: rng.Int64N(capacity + 1), MinUnit: 1, MaxUnit: capacity, StepSize: 1}
		}
		for k := range 2 {
			add(h.UUID, []string{"CUSTOM_GPU", fmt.Sprintf("CUSTOM_VGPU_TYPE_%d", (i+k)%3)}, some("VGPU", 8))
		}
		for _, of := range []string{benchNormal, benchDirect} {
			agent := add(h.UUID, []string{"CUSTOM_AGENT"})
			for k := range 2 {
				add(agent, []string{of, fmt.Sprintf("CUSTOM_PHYSNET_%d", k)}, some(benchEgress, 10_000_000), some(benchIngress, 10_000_000))
			}
		}
	}
	return hosts
}

// portGroup is the group that Neutron asks for a port with a minimum bandwidth.
func portGroup(suffix, vnic string, net int, kbit int64) ResourceGroup {
	return ResourceGroup{
		Suffix: suffix, Resources: []Amount{{benchEgress, kbit}, {benchIngress, kbit}},
		Required: []string{fmt.Sprintf("CUSTOM_PHYSNET_%d", net), vnic},
	}
}

// treeBenches are requests for providers of such trees.
var treeBenches = []struct {
	name string
	set  func(*Request)
}{
	// Most requests ask for nothing that a child provider has.
	{"no groups", func(*Request) {}},
	{"a class of children", func(r *Request) { r.Resources = append(r.Resources, Amount{"VGPU", 1}) }},
	{"a port", func(r *Request) { r.Tree.Groups = []ResourceGroup{portGroup("a", benchNormal, 0, 1_000_000)} }},
	{"three ports", func(r *Request) {
		r.Tree.Groups = []ResourceGroup{
			portGroup("a", benchNormal, 0, 1_000_000), portGroup("b", benchDirect, 0, 2_000_000), portGroup("c", benchDirect, 1, 1_000_000),
		}
	}},
	{"two GPUs, isolate", func(r *Request) {
		gpu := ResourceGroup{Suffix: "1", Resources: []Amount{{"VGPU", 2}}, Required: []string{"CUSTOM_GPU"}}
		r.Tree.Isolate, r.Tree.Groups = true, []ResourceGroup{gpu, gpu}
		r.Tree.Groups[1].Suffix = "2"
	}},
	{"two NICs of one agent", func(r *Request) {
		r.Tree.Groups = []ResourceGroup{portGroup("a", benchDirect, 0, 1_000_000), portGroup("b", benchDirect, 1, 1_000_000), {Suffix: "top", Required: []string{"CUSTOM_AGENT"}}}
		r.Tree.SameSubtree = [][]string{{"a", "b", "top"}}
	}},
	{"six ports and three GPUs that never fit together", func(r *Request) {
		for k := range 9 {
			g := ResourceGroup{Suffix: fmt.Sprint(k), Resources: []Amount{{benchEgress, 1_000 + int64(k)}}}
			if k >= 6 {
				g.Resources = []Amount{{"VGPU", int64(k - 2)}}
			}
			r.Tree.Groups = append(r.Tree.Groups, g)
		}
	}},
}

// BenchmarkProposeTree measures Propose on hosts with children, top 10. "no children" runs the
// first request on hosts without children.
func BenchmarkProposeTree(b *testing.B) {
	for _, n := range benchSizes[1:] {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			run := func(name string, table *Table, set func(*Request)) {
				b.Run(name, func(b *testing.B) {
					q := benchQuery()
					novaCases[0].set(q)
					q.Request.Tree = &Tree{}
					set(q.Request)
					passed := 0
					b.ReportAllocs()
					for b.Loop() {
						passed = propose(b, table, q).Passed
					}
					b.ReportMetric(float64(passed), "passed")
				})
			}
			run("no children", (&fleet{hosts: richHosts(n)}).table(), treeBenches[0].set)
			table := (&fleet{hosts: treeHosts(n)}).table()
			for _, c := range treeBenches {
				run(c.name, table, c.set)
			}
		})
	}
}

// The allocations of TreeFilter do not grow with the number of hosts.
func TestTreesAllocateNothingPerHost(t *testing.T) {
	norace.Skip(t, norace.Pure)
	for _, c := range treeBenches {
		allocs := func(n int) float64 {
			table, q := (&fleet{hosts: treeHosts(n)}).table(), benchQuery()
			q.Request.Tree = &Tree{}
			c.set(q.Request)
			return testing.AllocsPerRun(5, func() { propose(t, table, q) })
		}
		few, many := allocs(64), allocs(640)
		t.Logf("%s: %.0f allocations for 64 hosts, %.0f for 640", c.name, few, many)
		if many > few+30 {
			t.Errorf("%s: %.0f allocations for 64 hosts, %.0f for 640", c.name, few, many)
		}
	}
}

// BenchmarkProposeWithoutGroups alternates two requests on hosts without children: one may use
// child providers, the other may not. Its metrics are the shortest time of each, and the ratio of
// the first to the second.
func BenchmarkProposeWithoutGroups(b *testing.B) {
	table := (&fleet{hosts: richHosts(10_000)}).table()
	with, without := benchQuery(), benchQuery()
	novaCases[0].set(with)
	novaCases[0].set(without)
	with.Request.Tree = &Tree{}
	least := map[*Query]time.Duration{with: time.Hour, without: time.Hour}
	for b.Loop() {
		for _, q := range []*Query{with, without} {
			began := time.Now()
			propose(b, table, q)
			least[q] = min(least[q], time.Since(began))
		}
	}
	b.ReportMetric(float64(least[with].Nanoseconds()), "ns/tree")
	b.ReportMetric(float64(least[without].Nanoseconds()), "ns/none")
	b.ReportMetric(float64(least[with])/float64(least[without]), "ratio")
}
