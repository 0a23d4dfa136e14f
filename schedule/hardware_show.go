package schedule

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// HostCell is a NUMA cell of a host, for people. CPUs are as in "0-3,8".
type HostCell struct {
	ID, Socket                       int64
	Shared, Dedicated, Pinned        string
	CPUsUsed, MemoryMB, MemoryUsedMB int64
	// Pages are by size, the smallest first.
	Pages []HostPages
}

// HostPages are a cell's memory pages of a size.
type HostPages struct{ SizeKB, Total, Used, Reserved int64 }

// HostPool is a kind of a host's devices, named as in AssignedDevices. NUMACell is -1 if the pool is of none.
type HostPool struct {
	Devices        string
	NUMACell, Free int64
}

// Cells describes the NUMA cells, with what was taken.
func (h *Hardware) Cells() (cells []HostCell) {
	if h.left.numa == nil {
		return nil
	}
	for i := range h.left.numa.cells {
		c := &h.left.numa.cells[i]
		one := HostCell{
			ID: c.id, Socket: c.socket, Shared: c.shared.String(), Dedicated: c.dedicated.String(), Pinned: c.pinned.String(),
			CPUsUsed: c.cpuUsage, MemoryMB: c.memory, MemoryUsedMB: c.memoryUsed,
		}
		for _, p := range c.pages {
			one.Pages = append(one.Pages, HostPages{p.size, p.total, p.used, p.reserved})
		}
		slices.SortFunc(one.Pages, func(a, b HostPages) int { return cmp.Compare(a.SizeKB, b.SizeKB) })
		cells = append(cells, one)
	}
	return cells
}

// Pools describes the pools of devices, with what was taken.
func (h *Hardware) Pools() (pools []HostPool) {
	for i := range h.left.pools {
		p := &h.left.pools[i]
		one := HostPool{Devices: p.name(), NUMACell: -1, Free: h.left.free[i]}
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
