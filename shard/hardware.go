package shard

import (
	"cmp"
	"fmt"
	"slices"

	"cellgate/internal/fault"
	"cellgate/schedule/hardware"
)

// HasHardware reports whether the instance asks for NUMA cells or PCI devices.
func (g *Guest) HasHardware() bool { return g != nil && len(g.Hardware) > 0 }

// TakesHardware reports whether a claim takes NUMA cells or devices that no report of the host counts yet: while it
// is PENDING, and from its confirmation until a report has the instance. A claim that its host gave back takes
// nothing.
func (c *Claim) TakesHardware() bool {
	return c.State.Live() && c.Guest.HasHardware() && (c.State == Pending || c.Guest.Awaited) && !c.GaveBack()
}

// assigned gives a copy of the claim with this assignment; nil for none.
func (c *Claim) assigned(a *hardware.Assignment) *Claim {
	n, g := *c, *c.Guest
	g.Assigned = a
	n.Guest = &g
	return &n
}

// assign assigns NUMA cells and devices of the host to the claim, besides what other claims take. If they are not
// free, it says what is missing.
func (t *transaction) assign(h *Host, c *Claim) *Refusal {
	if !c.Guest.HasHardware() {
		return nil
	}
	guest, err := hardware.DecodeCheck(c.Guest.Hardware)
	if err != nil {
		return &Refusal{Kind: fault.InvalidRequest, Message: fmt.Sprintf("guest.hardware: %v", err)}
	}
	left := t.hardware(h)
	for _, id := range t.liveOn(h.UUID) {
		if o := t.view.Claims[id]; o.TakesHardware() && o.Guest.Assigned != nil {
			left, _ = left.Without(o.Guest.Assigned)
		}
	}
	a, lack := left.Assign(guest, h.ratios())
	if lack != nil {
		return &Refusal{
			Kind: fault.NoValidHost, Message: fmt.Sprintf("host %s: %s", h.ServiceHost, lack.Message),
			Filter: lack.Filter, Detail: lack.Resource,
		}
	}
	*c = *c.assigned(a)
	return nil
}

// reassign updates the NUMA cells and devices assigned to claims after a host's new report. A compute may pin an
// instance to other CPUs than were assigned, and those may be assigned to another claim. A claim keeps its assignment
// if the report has all of it free; else it gets another of the same kind. If there is none, it has nothing assigned
// until the next report.
func (t *transaction) reassign(h *Host) {
	takes := func(id string) bool { return t.view.Claims[id].TakesHardware() }
	if !slices.ContainsFunc(t.view.LiveByHost[h.UUID], takes) {
		return
	}
	var others []*Claim
	left := t.hardware(h)
	for _, id := range t.liveOn(h.UUID) {
		if !takes(id) {
			continue
		}
		c, kept := t.view.Claims[id], false
		if c.Guest.Assigned != nil {
			left, kept = left.Without(c.Guest.Assigned)
		}
		if !kept {
			others = append(others, c)
		}
	}
	for _, c := range others {
		var a *hardware.Assignment
		if guest, err := hardware.DecodeCheck(c.Guest.Hardware); err == nil {
			if a, _ = left.Assign(guest, h.ratios()); a != nil {
				left, _ = left.Without(a)
			}
		}
		if a == nil && c.Guest.Assigned == nil {
			continue
		}
		n := c.assigned(a)
		n.UpdatedAt = t.nextWriteTime(c)
		t.putClaim(n)
	}
}

// HardwareTexts are the NUMA topology and the device pools of the host, less what its instances use: as reported, or as
// Nova's tables record them of a host whose agent does not know its instances.
func (h *Host) HardwareTexts() (numa, pci string) {
	if h.Facts != nil {
		numa, pci = h.Facts.NUMATopology, h.Facts.PCIStats
	}
	if n := h.Nova; n != nil {
		numa, pci = cmp.Or(n.NUMATopology, numa), cmp.Or(n.PCIStats, pci)
	}
	return numa, pci
}

// ratios are the overcommit ratios of the host.
func (h *Host) ratios() hardware.Ratios {
	cpu, _ := h.inventory(h.UUID, "VCPU")
	ram, _ := h.inventory(h.UUID, "MEMORY_MB")
	return hardware.Ratios{CPU: cpu.AllocationRatio, RAM: ram.AllocationRatio}
}

// hardware gives the NUMA cells and devices that a host reported free. If the report cannot be read, nothing is free.
func (t *transaction) hardware(h *Host) hardware.Host {
	if known, ok := t.reported[h]; ok {
		return known
	}
	left, _ := hardware.Read(h.HardwareTexts())
	if t.reported == nil {
		t.reported = map[*Host]hardware.Host{}
	}
	t.reported[h] = left
	return left
}
