package agent

import (
	"maps"
	"slices"
	"sync"
)

// Huge pages that each NUMA node of a simulated host keeps for guests: pages1G of 1 GiB, and all of
// them together take one part in hugeShare of its memory.
const (
	pages1G     = 16
	hugeShare   = 4
	smallPageKB = 4
)

// hardwareTexts has each model's texts by its name, built once: they are long, and fleets are large.
var hardwareTexts sync.Map

// hardware gives the columns numa_topology and pci_stats of a machine.
func (m *model) hardware() (numa, pci string) {
	known, there := hardwareTexts.Load(m.name)
	if !there {
		known, _ = hardwareTexts.LoadOrStore(m.name, [2]string{m.numaText(), m.pciText()})
	}
	texts := known.([2]string)
	return texts[0], texts[1]
}

// numaText is the column numa_topology of a machine with NUMA nodes. Cores are spread evenly, each with
// two sibling threads in Linux's numbering, and a node is a socket. Guests may be pinned to every
// thread. "" for a machine without nodes.
func (m *model) numaText() string {
	if m.nodes == 0 {
		return ""
	}
	cores := int(m.threads) / 2
	cells := make([]any, m.nodes)
	for n := range cells {
		var cpus []int
		var siblings [][]int
		for c := n * cores / m.nodes; c < (n+1)*cores/m.nodes; c++ {
			siblings = append(siblings, []int{c, c + cores})
			cpus = append(cpus, c, c+cores)
		}
		slices.Sort(cpus)
		memory := int(m.memoryMB) / m.nodes
		pages2M := (memory/hugeShare - pages1G<<10) / 2
		pages := func(sizeKB, total int) any {
			return NovaObject("NUMAPagesTopology", "1.1", map[string]any{"size_kb": sizeKB, "total": total, "used": 0, "reserved": 0})
		}
		cells[n] = NovaObject("NUMACell", "1.5", map[string]any{
			"id": n, "cpuset": cpus, "pcpuset": cpus, "memory": memory, "cpu_usage": 0, "memory_usage": 0,
			"pinned_cpus": []int{}, "siblings": siblings, "socket": n,
			"mempages": []any{
				pages(smallPageKB, (memory-memory/hugeShare)<<10/smallPageKB), pages(2<<10, pages2M), pages(1<<20, pages1G),
			},
			"network_metadata": NovaObject("NetworkMetadata", "1.0", map[string]any{"physnets": []string{}, "tunneled": false}),
		})
	}
	return JSONText(NovaObject("NUMATopology", "1.2", map[string]any{"cells": cells}))
}

// pciText is the column pci_stats of a machine's devices, evenly spread over its nodes; "" without
// devices.
func (m *model) pciText() string {
	if m.devices == 0 {
		return ""
	}
	pools := make([]any, m.nodes)
	for n := range pools {
		pools[n] = NovaObject("PciDevicePool", "1.1", map[string]any{
			"vendor_id": m.vendor, "product_id": m.product, "numa_node": n,
			"tags": map[string]string{"dev_type": "type-PCI"}, "count": m.devices / m.nodes,
		})
	}
	return JSONText(NovaObject("PciDevicePoolList", "1.1", map[string]any{"objects": pools}))
}

// NovaObject encodes one of Nova's versioned objects as a primitive.
func NovaObject(name, version string, data map[string]any) map[string]any {
	return map[string]any{
		"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version,
		"nova_object.data": data, "nova_object.changes": slices.Sorted(maps.Keys(data)),
	}
}
