package hardware

import "slices"

// Consume gives the host after an instance took its part, as Nova's HostState does between the instances of one request
// (nova/scheduler/host_manager.py, _locked_consume_from_request; nova/virt/hardware.py,
// numa_usage_from_instance_numa). Nova goes on if that fails: then whole is false, and what was taken before the
// failure stays taken. ratios are nil if the filter of NUMA cells did not run: overcommit and networks then do not
// count.
func (hw *Host) Consume(g *Guest, ratios *Ratios) (after Host, whole bool) {
	after, _, whole = hw.consume(g, ratios)
	return after, whole
}

// consume also gives the host cells that were taken.
func (hw *Host) consume(g *Guest, ratios *Ratios) (after Host, cells []AssignedCell, whole bool) {
	after = *hw
	var ids []int64
	if g.NUMA != nil && hw.numa == nil {
		for i := range g.NUMA.Cells {
			ids = append(ids, g.NUMA.Cells[i].ID)
		}
	}
	if g.NUMA != nil && hw.numa != nil {
		var s Search
		found, err := s.find(hw, g, ratios)
		if err != nil {
			return after, nil, false
		}
		if found {
			cells = hw.numa.assign(s.guest)
			if after.numa = hw.numa.with(cells); after.numa == nil {
				after.numa = hw.numa
				return after, nil, false
			}
			for k := range s.guest {
				ids = append(ids, s.guest[k].id)
			}
		}
	}
	if len(g.PCI) == 0 {
		return after, cells, true
	}
	devices := deviceSearch{free: slices.Clone(hw.free)}
	ok, err := devices.apply(&after, g.PCI, ids)
	after.free = devices.free
	return after, cells, ok && err == nil
}

// assign gives what guest cells, which must fit, take of the host cells they are on.
func (h *hostNUMA) assign(guest []guestCell) []AssignedCell {
	cells := make([]AssignedCell, len(guest))
	for k := range guest {
		g := &guest[k]
		cells[k] = AssignedCell{ID: g.id, PageSize: g.pageSize, MemoryMB: g.MemoryMB, CPUs: int64(g.CPUs)}
		if !g.Pinned() || g.packed < 0 {
			continue
		}
		cells[k].Pinned = h.cells[g.packed].pick(g)
		if i := h.cell(g.id); i >= 0 && g.Threads == ThreadIsolate {
			cells[k].Pinned = h.cells[i].wholeCores(cells[k].Pinned)
		}
	}
	return cells
}

// cell gives the index of a host cell by its id; -1 for none.
func (h *hostNUMA) cell(id int64) int {
	return slices.IndexFunc(h.cells, func(c hostCell) bool { return c.id == id })
}

// wholeCores gives all threads of the CPUs' cores. An isolated guest uses one thread of a core, and no other guest
// may use the rest.
func (c *hostCell) wholeCores(cpus []int) (whole []int) {
	for _, core := range c.siblings {
		if slices.ContainsFunc(core, func(cpu int) bool { return slices.Contains(cpus, cpu) }) {
			whole = append(whole, core...)
		}
	}
	return whole
}

// with gives the topology with a guest on it; nil if Nova fails to compute it.
func (h *hostNUMA) with(cells []AssignedCell) *hostNUMA {
	if h.noCPUs || h.noSocket {
		return nil
	}
	after := *h
	after.cells = slices.Clone(h.cells)
	for i := range after.cells {
		c := &after.cells[i]
		for k := range cells {
			if cells[k].ID == c.id && !c.use(&cells[k]) {
				return nil
			}
		}
		c.sum()
		c.memoryUsed, c.cpuUsage = max(0, c.memoryUsed), max(0, c.cpuUsage)
	}
	return &after
}

// use adds a guest's cell to a host cell's usage; false if Nova cannot compute it.
func (c *hostCell) use(a *AssignedCell) bool {
	size := a.PageSize
	if size == 0 {
		if len(c.pages) == 0 {
			return false // Nova needs the smallest page size here.
		}
		size = c.sizes[len(c.sizes)-1]
	}
	c.pages = slices.Clone(c.pages)
	for i := range c.pages {
		if p := &c.pages[i]; p.size == size {
			p.used = max(0, p.used+a.MemoryMB*1024/size)
		}
	}
	c.memoryUsed += a.MemoryMB
	c.cpuUsage += a.CPUs
	if len(a.Pinned) == 0 {
		return true
	}
	pinned := slices.Clone(c.pinned)
	for _, cpu := range a.Pinned {
		if !c.dedicated.has(cpu) || c.pinned.has(cpu) {
			return false
		}
		pinned = pinned.with(cpu)
	}
	c.pinned = pinned
	return true
}

// pick gives the CPUs that a guest's cell and its emulator are pinned to. It takes the lowest free threads of a core;
// Nova takes any.
func (c *hostCell) pick(g *guestCell) (cpus []int) {
	free := c.dedicated.without(c.pinned)
	var cores [][]int
	for _, core := range c.siblings {
		cores = append(cores, slices.DeleteFunc(slices.Clone(core), func(cpu int) bool { return !free.has(cpu) }))
	}
	each := c.pack(g.Threads, g.Dedicated, g.reserved)
	least := max(1, each)
	if g.Threads == ThreadIsolate {
		least = c.threadsPerCore
	}
	for i, core := range cores {
		if len(core) < least {
			continue
		}
		n := len(core)
		if each > 0 {
			n = each
		}
		n = min(n, g.Dedicated-len(cpus))
		cpus = append(cpus, core[:n]...)
		if cores[i] = core[n:]; g.Threads == ThreadIsolate && n > 0 {
			cores[i] = nil
		}
	}
	for _, core := range cores {
		for _, cpu := range core {
			if g.reserved > 0 {
				return append(cpus, cpu)
			}
		}
	}
	return cpus
}
