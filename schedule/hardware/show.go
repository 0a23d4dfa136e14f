package hardware

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// CellSummary is a NUMA cell of a host, for people. CPUs are as in "0-3,8".
type CellSummary struct {
	ID, Socket                       int64
	Shared, Dedicated, Pinned        string
	CPUsUsed, MemoryMB, MemoryUsedMB int64
	// Pages are by size, the smallest first.
	Pages []PagesSummary
}

// PagesSummary are a cell's memory pages of a size.
type PagesSummary struct{ SizeKB, Total, Used, Reserved int64 }

// PoolSummary is a kind of a host's devices, named as in AssignedDevices. NUMACell is -1 if the pool is of none.
type PoolSummary struct {
	Devices        string
	NUMACell, Free int64
}

// Cells describes the NUMA cells, with what was taken.
func (hw *Host) Cells() (cells []CellSummary) {
	if hw.numa == nil {
		return nil
	}
	for i := range hw.numa.cells {
		c := &hw.numa.cells[i]
		one := CellSummary{
			ID: c.id, Socket: c.socket, Shared: c.shared.String(), Dedicated: c.dedicated.String(), Pinned: c.pinned.String(),
			CPUsUsed: c.cpuUsage, MemoryMB: c.memory, MemoryUsedMB: c.memoryUsed,
		}
		for _, p := range c.pages {
			one.Pages = append(one.Pages, PagesSummary{p.size, p.total, p.used, p.reserved})
		}
		slices.SortFunc(one.Pages, func(a, b PagesSummary) int { return cmp.Compare(a.SizeKB, b.SizeKB) })
		cells = append(cells, one)
	}
	return cells
}

// Pools describes the pools of devices, with what was taken.
func (hw *Host) Pools() (pools []PoolSummary) {
	for i := range hw.pools {
		p := &hw.pools[i]
		one := PoolSummary{Devices: p.name(), NUMACell: -1, Free: hw.free[i]}
		if p.hasNode {
			one.NUMACell = p.node
		}
		pools = append(pools, one)
	}
	return pools
}

// PinnedText writes Pinned as "0-3,8".
func (c *AssignedCell) PinnedText() string {
	var all cpuSet
	for _, cpu := range c.Pinned {
		all = all.with(cpu)
	}
	return all.String()
}

// String writes CPUs as "0-3,8".
func (s cpuSet) String() string {
	var parts []string
	for cpu := 0; cpu < 64*len(s); cpu++ {
		if !s.has(cpu) {
			continue
		}
		first := cpu
		for s.has(cpu + 1) {
			cpu++
		}
		part := strconv.Itoa(first)
		if cpu > first {
			part += "-" + strconv.Itoa(cpu)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ",")
}
