package schedule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"cellgate/schedule/hardware"
)

// benchHardware gives a host of two sockets of 32 cores with two threads each,
// some of them pinned, and two kinds of devices.
func benchHardware(rng *rand.Rand) FactTexts {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	var cells []any
	for id := range 2 {
		var cpus, pinned []int
		var siblings [][]int
		for core := range 32 {
			cpu := id*32 + core
			siblings = append(siblings, []int{cpu, cpu + 64})
			cpus = append(cpus, cpu, cpu+64)
			if rng.IntN(2) == 0 {
				pinned = append(pinned, cpu, cpu+64)
			}
		}
		cells = append(cells, novaObject(map[string]any{
			"id": id, "cpuset": []int{}, "pcpuset": cpus, "pinned_cpus": pinned, "siblings": siblings, "memory": 262144,
			"memory_usage": rng.Int64N(256) * 1024, "cpu_usage": 0, "socket": id, "mempages": []any{
				novaObject(map[string]any{"size_kb": 4, "total": 1 << 20, "used": 0, "reserved": 0}),
				novaObject(map[string]any{"size_kb": 1 << 20, "total": 252, "used": rng.IntN(253), "reserved": 0}),
			},
		}))
	}
	var pools []any
	for id := range 2 {
		pools = append(pools, novaObject(map[string]any{
			"vendor_id": "10de", "product_id": "20b5", "numa_node": id, "count": rng.IntN(3), "tags": map[string]any{"dev_type": "type-PCI"},
		}))
	}
	return FactTexts{
		Stats:        "{}",
		NUMATopology: text(novaObject(map[string]any{"cells": cells})),
		PCIPools:     text(novaObject(map[string]any{"objects": pools})),
	}
}

// BenchmarkNUMA asks all hosts for NUMA cells or devices. Each host is used differently.
func BenchmarkNUMA(b *testing.B) {
	for _, n := range benchSizes[:2] {
		hosts := benchHosts(n)
		rng := rand.New(rand.NewPCG(5, 6))
		for i := range hosts {
			hosts[i].Facts = ParseFacts(benchHardware(rng))
		}
		table := (&fleet{hosts: hosts}).table()
		cell := hardware.InstanceCell{Dedicated: 8, MemoryMB: 16384, Policy: hardware.CPUDedicated, Threads: hardware.ThreadRequire, PageSize: 1 << 20}
		second := cell
		second.ID = 1
		gpu := hardware.PCIRequest{Count: 1, Specs: []hardware.PCISpec{{{Key: "product_id", Value: "20B5"}, {Key: "vendor_id", Value: "10de"}}}, Policy: hardware.PCIRequired}
		for _, v := range []struct {
			name string
			nova NovaRequest
		}{
			{"one cell", NovaRequest{Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{cell}}}}},
			{"two cells", NovaRequest{Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{cell, second}}}}},
			{"one cell and a device", NovaRequest{Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{cell}}, PCI: []hardware.PCIRequest{gpu}}}},
			{"a device", NovaRequest{Guest: hardware.Guest{PCI: []hardware.PCIRequest{gpu}}}},
		} {
			q := benchQuery()
			q.Request.Resources, q.Request.Nova = nil, &v.nova
			q.Rules.Filters = append(DefaultFilters(), NUMAFilter, PCIFilter)
			b.Run(fmt.Sprintf("%s/hosts=%d", v.name, n), func(b *testing.B) {
				b.ReportAllocs()
				passed := 0
				for b.Loop() {
					passed = propose(b, table, q).Passed
				}
				b.ReportMetric(float64(passed), "passed")
			})
		}
	}
}

// BenchmarkNUMANaive measures the oracle for "one cell".
func BenchmarkNUMANaive(b *testing.B) {
	hosts := benchHosts(10_000)
	rng := rand.New(rand.NewPCG(5, 6))
	read := make([]*naiveHardware, len(hosts))
	for i := range hosts {
		read[i] = readNaiveHardware(ParseFacts(benchHardware(rng)))
	}
	n := &NovaRequest{Guest: hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{{
		Dedicated: 8, MemoryMB: 16384, Policy: hardware.CPUDedicated, Threads: hardware.ThreadRequire, PageSize: 1 << 20,
	}}}}}
	for b.Loop() {
		for _, h := range read {
			if _, err := h.fit(n, 1, 1, true); err != nil {
				b.Fatal(err)
			}
		}
	}
}
