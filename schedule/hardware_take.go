package schedule

import "slices"

// take gives the hardware after an instance got its part of it, as Nova's
// HostState does between the instances of one request (nova/scheduler/host_manager.py,
// _locked_consume_from_request; nova/virt/hardware.py, numa_usage_from_instance_numa).
// Nova goes on when that fails: whole is false then, and what was taken before it
// failed stays taken. limits are those the filter judged by; nil when it did not
// run.
func (hw *hardware) take(n *NovaRequest, limits *numaLimits) (after hardware, whole bool) {
	after = *hw
	after.reported = false
	var ids []int64
	if n.NUMA != nil && hw.numa == nil {
		for i := range n.NUMA.Cells {
			ids = append(ids, n.NUMA.Cells[i].ID)
		}
	}
	if n.NUMA != nil && hw.numa != nil {
		s := numaSearch{need: n.NUMA, limits: limits, pci: n.PCI}
		if limits != nil {
			s.nets = n.Networks
		}
		found, err := s.find(hw)
		if err != nil {
			return after, false
		}
		if found {
			if after.numa = hw.numa.with(s.guest); after.numa == nil {
				after.numa = hw.numa
				return after, false
			}
			for k := range s.guest {
				ids = append(ids, s.guest[k].id)
			}
		}
	}
	if len(n.PCI) == 0 {
		return after, true
	}
	devices := pciSearch{free: slices.Clone(hw.free)}
	ok, err := devices.apply(&after, n.PCI, ids)
	after.free = devices.free
	return after, ok && err == nil
}

// devices is how many devices are free.
func (hw *hardware) devices() (n int64) {
	for _, free := range hw.free {
		n += free
	}
	return n
}

// with gives the topology with a guest on it; nil when Nova fails to reckon that.
func (h *hostNUMA) with(guest []guestCell) *hostNUMA {
	if h.noCPUs || h.noSocket {
		return nil
	}
	after := *h
	after.cells = slices.Clone(h.cells)
	for i := range after.cells {
		c := &after.cells[i]
		for k := range guest {
			g := &guest[k]
			if g.id == c.id && !c.use(h, g) {
				return nil
			}
		}
		c.sum()
		c.memoryUsed, c.cpuUsage = max(0, c.memoryUsed), max(0, c.cpuUsage)
	}
	return &after
}

// use takes a guest's cell from a host's; false when it cannot be reckoned.
func (c *hostCell) use(h *hostNUMA, g *guestCell) bool {
	size := g.pageSize
	if size == 0 {
		if len(c.pages) == 0 {
			return false // Nova looks for the smallest.
		}
		size = c.sizes[len(c.sizes)-1]
	}
	c.pages = slices.Clone(c.pages)
	for i := range c.pages {
		if p := &c.pages[i]; p.size == size {
			p.used = max(0, p.used+g.MemoryMB*1024/size)
		}
	}
	c.memoryUsed += g.MemoryMB
	c.cpuUsage += int64(g.CPUs)
	if !g.pinned() || g.packed < 0 {
		return true
	}
	cpus := h.cells[g.packed].pick(g)
	pinned := slices.Clone(c.pinned)
	if g.Threads == ThreadIsolate {
		// Threads beside the guest's are lost for others.
		var whole []int
		for _, core := range c.siblings {
			if slices.ContainsFunc(core, func(cpu int) bool { return slices.Contains(cpus, cpu) }) {
				whole = append(whole, core...)
			}
		}
		cpus = whole
	}
	for _, cpu := range cpus {
		if !c.dedicated.has(cpu) || c.pinned.has(cpu) {
			return false
		}
		pinned = pinned.with(cpu)
	}
	c.pinned = pinned
	return true
}

// pick gives the CPUs that a guest's cell is pinned to, and the emulator's. Of a
// core the lowest free threads are taken; Nova takes any.
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

// takeHardware takes an instance's part of the host's hardware; false when Nova
// fails to, and then counts no io operation. The row must be owned.
func (r *row) takeHardware(n *NovaRequest, limited bool) bool {
	hw := r.hardware()
	if hw == nil || n.NUMA == nil && len(n.PCI) == 0 {
		return true
	}
	var limits *numaLimits
	if limited {
		limits = &numaLimits{r.view.CPURatio, r.view.RAMRatio}
	}
	after, whole := hw.take(n, limits)
	r.setHardware(after)
	return whole
}

// setHardware replaces what is left of the row's hardware. The row must be owned.
func (r *row) setHardware(after hardware) {
	r.view.PCIFree += after.devices() - r.host.Facts.hardware.devices()
	host, facts := *r.host, *r.host.Facts
	if facts.reported == nil {
		reported := facts.hardware
		facts.reported = &reported
	}
	facts.hardware = after
	host.Facts = &facts
	r.host = &host
}

// SetGuests takes, of the NUMA cells and devices that a host reported, what these
// instances take, one after the other; what others took before is given back. It
// reports false when there is no such host.
func (e *Edit) SetGuests(id ID, guests []*NovaRequest) bool {
	at, ok := e.t.slots.get(id)
	if !ok {
		return false
	}
	hw := e.t.row(at).hardware()
	if hw == nil || len(guests) == 0 && hw.reported {
		return true
	}
	r, c := e.ownRow(at)
	after := *hw
	if was := r.host.Facts.reported; was != nil {
		after = *was
	}
	limits := &numaLimits{r.view.CPURatio, r.view.RAMRatio}
	for _, n := range guests {
		after, _ = after.take(n, limits)
	}
	r.setHardware(after)
	e.writeUsage(at, r, c)
	return true
}

// FreeDevices is how many PCI devices the host reported as free.
func (f *Facts) FreeDevices() int64 {
	if f == nil {
		return 0
	}
	return f.hardware.devices()
}
