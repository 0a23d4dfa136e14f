package hardware

import "cellgate/internal/python"

// notLoaded is the exception for a field that an old compute did not report.
func notLoaded(field string) *python.Exception {
	return python.NewException("NotImplementedError", "Cannot load '"+field+"' in the base class")
}

// Nova releases that changed how cells fit (InstanceNUMA.Release).
const (
	// releaseEmptyPins: a cell of policy mixed without dedicated CPUs is pinned to none.
	releaseEmptyPins = 28
	// releasePinnedPages: a pinned guest's memory must fit into free pages.
	releasePinnedPages = 30
)

// guestCell is the state of a guest's cell during the search for a fit. Nova changes these fields in place, also
// before a fit fails, and reads them again.
type guestCell struct {
	*InstanceCell
	id       int64
	pageSize int64
	// packed is the index of the host cell that it was last pinned to; -1 for none. reserved: the emulator's extra
	// CPU there.
	packed   int
	reserved int
	// release is InstanceNUMA's.
	release int32
}

// fits reports whether a guest's cell fits on a host's cell (nova/virt/hardware.py, _numa_fit_instance_cell).
// overhead is how many CPUs the emulator needs there. ratios may be nil.
func (g *guestCell) fits(h *hostNUMA, at int, ratios *Ratios, overhead int) (bool, *python.Exception) {
	c := &h.cells[at]
	if !g.memoryFits(c) {
		return false, nil
	}
	if g.Pinned() {
		if h.noCPUs {
			return false, notLoaded("pcpuset")
		}
		if g.Dedicated+overhead > c.nDedicated {
			return false, nil
		}
	}
	if g.shared() && g.CPUs > c.nShared {
		return false, nil
	}
	if g.Pinned() {
		if g.Dedicated+overhead > c.freeCPUs {
			return false, nil
		}
		if g.release < releasePinnedPages && g.MemoryMB > c.memory-c.memoryUsed {
			return false, nil
		}
		if len(c.siblings) == 0 {
			return false, python.ValueError("max() arg is an empty sequence")
		}
		if !g.packs(c, overhead) {
			return false, nil
		}
		g.id, g.packed, g.reserved = c.id, at, overhead
	}
	if g.shared() && ratios != nil {
		if float64(c.cpuUsage+int64(g.CPUs)) > float64(c.nShared)*ratios.CPU ||
			float64(c.memoryUsed+g.MemoryMB) > float64(c.memory)*ratios.RAM {
			return false, nil
		}
	}
	g.id = c.id
	return true, nil
}

// packs reports whether the cell's dedicated CPUs can be pinned. If the cell has none (policy mixed), older releases
// always fail. Newer ones check only that siblings exist, and have no CPU for the emulator.
func (g *guestCell) packs(c *hostCell, overhead int) bool {
	if g.Dedicated > 0 || g.release < releaseEmptyPins {
		return c.pack(g.Threads, g.Dedicated, overhead) != 0
	}
	switch {
	case overhead > 0 || g.Threads == ThreadIsolate || g.CPUs == 0:
		return false // To Nova a cell without any CPU does not fit.
	case g.Threads == ThreadRequire:
		return c.threadsPerCore > 1 && c.freeCores[2] > 0
	}
	return true
}

// memoryFits checks memory that is not overcommitted, and sets the page size if the request left it open.
func (g *guestCell) memoryFits(c *hostCell) bool {
	memory := g.MemoryMB * 1024
	free := g.Pinned() && g.release >= releasePinnedPages
	switch {
	case g.pageSize != 0:
		size := c.pageFor(g.pageSize, memory)
		if size == 0 {
			return false
		}
		g.pageSize = size
		return true
	case len(c.pages) > 0:
		ok, _ := c.holds(c.sizes[len(c.sizes)-1], memory, free)
		return ok
	case free:
		return g.MemoryMB <= c.memory-c.memoryUsed
	}
	return g.MemoryMB <= c.memory
}

// pageFor gives a page size that the memory (KiB) fits into; 0 for none.
func (c *hostCell) pageFor(asked, memory int64) int64 {
	sizes := c.sizes
	switch asked {
	case PageSmall:
		sizes = sizes[max(0, len(sizes)-1):]
	case PageLarge:
		sizes = sizes[:max(0, len(sizes)-1)]
	case PageAny:
	default:
		if ok, _ := c.holds(asked, memory, true); ok {
			return asked
		}
		return 0
	}
	for _, size := range sizes {
		if ok, _ := c.holds(size, memory, true); ok {
			return size
		}
	}
	return 0
}

// holds reports whether memory (KiB) fits into pages of a size, into the free ones or all; known is false if there
// are no pages of that size.
func (c *hostCell) holds(size, memory int64, onlyFree bool) (ok, known bool) {
	for i := range c.pages {
		p := &c.pages[i]
		if p.size != size {
			continue
		}
		n := p.total
		if onlyFree {
			n -= p.used + p.reserved
		}
		return memory%size == 0 && memory/size <= n, true
	}
	return false, false
}

// anyThreads: CPUs are pinned to any free threads.
const anyThreads = -1

// pack gives how many threads of each core are used to pin n CPUs; 0 if they cannot be pinned (nova/virt/hardware.py,
// _pack_instance_onto_cores). With overhead, more than n must be free. Emptier cores come first; every policy but
// require and isolate falls back to anyThreads. The counts of cores by free threads suffice; CPU numbers do not
// matter.
func (c *hostCell) pack(policy string, n, overhead int) int {
	if n == 0 {
		return 0
	}
	if policy == ThreadIsolate {
		switch {
		case c.threadsPerCore == 0 || c.freeCores[c.threadsPerCore] < n:
		case c.threadsPerCore != 1 && !c.alike:
		case overhead > 0 && c.freeCores[1] <= n:
		default:
			return 1
		}
		return 0
	}
	if overhead > 0 && c.freeThreads <= n {
		return 0
	}
	least := 1
	if policy == ThreadRequire {
		least = 2
	}
	for k := c.threadsPerCore; k >= least; k-- {
		if k*c.freeCores[k] >= n {
			return k
		}
	}
	if policy != ThreadRequire && c.freeThreads >= n {
		return anyThreads
	}
	return 0
}
