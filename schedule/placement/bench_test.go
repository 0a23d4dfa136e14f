package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// hosts are 10,000 computes. Nested computes have two NUMA nodes and eight network devices. In a busy fleet nearly
// everything is used, on each compute differently.
func hosts(t testing.TB, nested, busy, shared bool) []*Tree {
	r := rand.New(rand.NewPCG(1, 1))
	used := func(total int64) int64 {
		if !busy {
			return 0
		}
		return total - r.Int64N(total/4)
	}
	out := make([]*Tree, 0, 10_001)
	for i := range 10_000 {
		id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)
		root := Provider{UUID: id, Traits: []string{"COMPUTE_NODE", "COMPUTE_STATUS", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX"}, Aggregates: []string{fmt.Sprint("az", i%3)}}
		if !shared {
			root.Inventories = append(root.Inventories, inventory("DISK_GB", 2000, used(2000)))
		}
		if !nested {
			root.Inventories = append(root.Inventories, inventory("VCPU", 64, used(64)), inventory("MEMORY_MB", 262144, used(262144)))
			out = append(out, tree(t, root))
			continue
		}
		all := []Provider{root}
		for n := range 2 {
			numa := fmt.Sprintf("%08d-0000-4000-8000-00000000010%d", i, n)
			all = append(all, Provider{UUID: numa, Parent: id, Traits: []string{"HW_NUMA_ROOT"}, Inventories: []Inventory{inventory("VCPU", 32, used(32)), inventory("MEMORY_MB", 131072, used(131072))}})
			for d := range 4 {
				all = append(all, Provider{UUID: fmt.Sprintf("%08d-0000-4000-8000-0000000002%d%d", i, n, d), Parent: numa, Traits: []string{fmt.Sprint("CUSTOM_PHYSNET_", d%2)}, Inventories: []Inventory{inventory("SRIOV_NET_VF", 8, used(8))}})
			}
		}
		out = append(out, tree(t, all...))
	}
	if shared {
		out = append(out, tree(t, Provider{UUID: "nfs", Aggregates: []string{"az0", "az1", "az2"}, Traits: []string{SharingTrait}, Inventories: []Inventory{inventory("DISK_GB", 1_000_000, 0)}}))
	}
	return out
}

func instance() Group {
	return Group{Resources: map[string]int64{"VCPU": 4, "MEMORY_MB": 8192, "DISK_GB": 20}, Traits: Filter{AnyOf: [][]string{{"COMPUTE_NODE"}}, Forbidden: []string{"COMPUTE_STATUS_DISABLED"}}}
}

func ports(n int) (out []Group) {
	for i := range n {
		out = append(out, Group{Suffix: fmt.Sprint("_port", i), Resources: map[string]int64{"SRIOV_NET_VF": 1}, Traits: Filter{AnyOf: [][]string{{"CUSTOM_PHYSNET_0"}}}})
	}
	return out
}

func BenchmarkCandidates(b *testing.B) {
	spread := instance()
	spread.Traits = Filter{}
	for _, c := range []struct {
		name                 string
		nested, busy, shared bool
		q                    Query
	}{
		{"flat/limit=1000", false, false, false, Query{Groups: []Group{instance()}, Limit: 1000}},
		{"flat/all", false, false, false, Query{Groups: []Group{instance()}}},
		{"flat busy/limit=1000", false, true, false, Query{Groups: []Group{instance()}, Limit: 1000}},
		{"flat shared disk/limit=1000", false, false, true, Query{Groups: []Group{instance()}, Limit: 1000}},
		{"nested/limit=1000", true, false, false, Query{Groups: []Group{spread}, Limit: 1000}},
		{"nested 4 ports isolated/limit=1000", true, false, false, Query{Groups: append([]Group{spread}, ports(4)...), Isolate: true, Limit: 1000}},
		{"nested busy 2 ports/limit=1000", true, true, false, Query{Groups: append([]Group{spread}, ports(2)...), Isolate: true, Limit: 1000}},
		{"nested 5 ports isolated, none/limit=1000", true, false, false, Query{Groups: ports(5), Isolate: true, Limit: 1000}},
	} {
		b.Run(c.name, func(b *testing.B) {
			trees := hosts(b, c.nested, c.busy, c.shared)
			c.q.Nested = true
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				r, err := Candidates(trees, &c.q)
				if err != nil {
					b.Fatal(err)
				}
				n = len(r.Requests)
			}
			b.ReportMetric(float64(n), "requests")
		})
	}
}

func BenchmarkNewTree(b *testing.B) {
	providers := hosts(b, true, true, false)[0].providers
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewTree(providers); err != nil {
			b.Fatal(err)
		}
	}
}
