package shard

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"cellgate/schedule/hardware"
)

// BenchmarkDecide measures the rules alone: 8 claims and 8 releases a batch, on a host with 40 live
// claims.
func BenchmarkDecide(b *testing.B) {
	for name, guest := range benchGuests() {
		b.Run(name, func(b *testing.B) {
			w := newWorld()
			now := time.Unix(1000, 0)
			host := &Host{UUID: "h", ServiceHost: "s", Facts: benchFacts(), Providers: []Provider{{UUID: "h", Inventories: []Inventory{
				{ResourceClass: "VCPU", Total: 1000, MinUnit: 1, MaxUnit: 1000, StepSize: 1, AllocationRatio: 1},
				{ResourceClass: "MEMORY_MB", Total: 1 << 20, MinUnit: 1, MaxUnit: 1 << 20, StepSize: 1, AllocationRatio: 1},
			}}}}
			w.write([]Change{{Host: host}})
			claim := func(n int, g *Guest) Op {
				id := fmt.Sprint(n)
				return Op{Claim: &NewClaim{
					ClaimID: "c" + id, ConsumerUUID: "i" + id, HostUUID: "h", TTL: time.Minute, Guest: g,
					Allocations: []Used{{"h", "VCPU", 4}, {"h", "MEMORY_MB", 4096}},
				}}
			}
			for n := range 40 {
				var g *Guest
				if n < 8 {
					g = guest
				}
				ops := []Op{claim(n, g)}
				w.write(Decide(now, w.read(ReadSetOf(ops)), ops).Changes)
			}
			var ops []Op
			for n := range 8 {
				ops = append(ops, claim(100+n, guest), Op{Release: &ClaimRef{ClaimID: fmt.Sprint("c", 100+n), ConsumerUUID: fmt.Sprint("i", 100+n)}})
			}
			views := make([]*View, b.N)
			for i := range views {
				views[i] = w.read(ReadSetOf(ops))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				for _, o := range Decide(now, views[i], ops).Outcomes {
					if o.Refusal != nil {
						b.Fatal(o.Refusal.Message)
					}
				}
			}
		})
	}
}

// benchGuests gives three kinds of instances: without hardware, with a device, and with two
// dedicated CPUs and huge pages.
func benchGuests() map[string]*Guest {
	device := hardware.Check{JudgePCI: true, Guest: hardware.Guest{PCI: []hardware.PCIRequest{
		{Count: 1, Specs: []hardware.PCISpec{{{Key: "product_id", Value: "20b5"}}}},
	}}}
	pinned := hardware.Check{JudgeNUMA: true, Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{
		{Dedicated: 2, MemoryMB: 4096, PageSize: 2048, Policy: hardware.CPUDedicated},
	}}}}
	return map[string]*Guest{"plain": nil, "device": {Hardware: device.Encode()}, "pinned": {Hardware: pinned.Encode()}}
}

// benchFacts gives the facts of a host with two NUMA cells of 64 threads each, and 64 devices.
func benchFacts() *Facts {
	var cells []string
	for c := range 2 {
		var cpus []int
		var siblings [][]int
		for n := range 64 {
			cpus = append(cpus, 64*c+n)
			if n%2 == 0 {
				siblings = append(siblings, []int{64*c + n, 64*c + n + 1})
			}
		}
		list, _ := json.Marshal(cpus)
		cores, _ := json.Marshal(siblings)
		cells = append(cells, fmt.Sprintf(`{"nova_object.data": {"id": %d, "cpuset": [], "pcpuset": %s, "pinned_cpus": [], "siblings": %s, "socket": %d,
			"memory": 524288, "cpu_usage": 0, "memory_usage": 0, "network_metadata": null, "mempages": [
			{"nova_object.data": {"size_kb": 4, "total": 1048576, "used": 0, "reserved": 0}},
			{"nova_object.data": {"size_kb": 2048, "total": 131072, "used": 0, "reserved": 0}}]}}`, c, list, cores, c))
	}
	return &Facts{
		NUMATopology: fmt.Sprintf(`{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [%s, %s]}}`, cells[0], cells[1]),
		PCIStats:     `[{"vendor_id": "10de", "product_id": "20b5", "numa_node": 0, "count": 32}, {"vendor_id": "10de", "product_id": "20b5", "numa_node": 1, "count": 32}]`,
	}
}
