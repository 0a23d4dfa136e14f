package hardware

import "testing"

// A refusal names the resource that is missing.
func TestAssign_Full_SaysWhatIsMissing(t *testing.T) {
	const numa = `{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [{"nova_object.data": {
		"id": 0, "cpuset": [4, 5], "pcpuset": [0, 1, 2, 3], "pinned_cpus": [0, 1], "siblings": [[0], [1], [2], [3], [4], [5]], "socket": 0,
		"memory": 4096, "cpu_usage": 0, "memory_usage": 0, "network_metadata": null,
		"mempages": [{"nova_object.data": {"size_kb": 4, "total": 524288, "used": 0, "reserved": 0}},
			{"nova_object.data": {"size_kb": 2048, "total": 4, "used": 2, "reserved": 0}}]}}]}}`
	const pci = `[{"vendor_id": "10de", "product_id": "20b5", "numa_node": 1, "count": 1}]`
	gpu := func(n int64) []PCIRequest {
		return []PCIRequest{{Count: n, Policy: PCIRequired, Specs: []PCISpec{{{Key: "product_id", Value: "20b5"}, {Key: "vendor_id", Value: "10de"}}}}}
	}
	pinned := func(cpus int, memory, page int64) *InstanceNUMA {
		return &InstanceNUMA{Cells: []InstanceCell{{Dedicated: cpus, MemoryMB: memory, PageSize: page, Policy: CPUDedicated}}}
	}
	shared := func(cpus int, memory, page int64) *InstanceNUMA {
		return &InstanceNUMA{Cells: []InstanceCell{{CPUs: cpus, MemoryMB: memory, PageSize: page}}}
	}
	for name, c := range map[string]struct {
		guest Guest
		want  Lack
	}{
		"dedicated CPUs": {Guest{NUMA: pinned(3, 4, 0)}, Lack{FilterNUMA, "dedicated CPUs", "not enough dedicated CPUs"}},
		"shared CPUs":    {Guest{NUMA: shared(3, 4, 0)}, Lack{FilterNUMA, "CPUs", "not enough CPUs"}},
		"pages":          {Guest{NUMA: shared(1, 6, 2048)}, Lack{FilterNUMA, "pages of 2048 KiB", "not enough pages of 2048 KiB"}},
		"memory":         {Guest{NUMA: shared(1, 8192, 0)}, Lack{FilterNUMA, "memory", "not enough memory"}},
		"cells":          {Guest{NUMA: &InstanceNUMA{Cells: make([]InstanceCell, 2)}}, Lack{FilterNUMA, "NUMA cells", "not enough NUMA cells"}},
		"near":           {Guest{NUMA: shared(1, 4, 0), PCI: gpu(1)}, Lack{FilterNUMA, "devices near the NUMA cells", "not enough devices near the NUMA cells"}},
		"devices":        {Guest{PCI: gpu(2)}, Lack{FilterPCI, "product_id=20b5,vendor_id=10de", "not enough devices product_id=20b5,vendor_id=10de: 2 asked for, 1 free"}},
	} {
		h, problems := Read(numa, pci)
		if problems != nil {
			t.Fatal(problems)
		}
		if _, lack := h.Assign(&Check{Guest: c.guest, JudgeNUMA: true, JudgePCI: true}, Ratios{1, 1}); lack == nil || *lack != c.want {
			t.Errorf("%s: %+v, want %+v", name, lack, c.want)
		}
	}
}
