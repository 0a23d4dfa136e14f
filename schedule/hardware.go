package schedule

import (
	"slices"

	"cellgate/schedule/hardware"
)

// readHardware reads the topology and the pools. If one cannot be read, Nova fails to read the host state.
func (f *Facts) readHardware() {
	var problems []hardware.Problem
	f.hardware, problems = hardware.Read(f.NUMATopology, f.PCIPools)
	for _, p := range problems {
		f.fail(p.Field, "ValueError: %s", p.Text)
	}
}

// hardware is the host's hardware; nil if its compute has not reported.
func (r *row) hardware() *hardware.Host {
	if f := r.host.Facts; f != nil && !f.Unfilled {
		return &f.hardware
	}
	return nil
}

// ratios are the overcommit ratios by which NUMA cells are judged.
func (r *row) ratios() hardware.Ratios {
	return hardware.Ratios{CPU: r.view.CPURatio, RAM: r.view.RAMRatio}
}

// WithProviders gives a guest with the providers that an allocation assigns to the groups of its devices.
func WithProviders(g *hardware.Guest, mappings []Mapping) *hardware.Guest {
	if !mapsDevices(g) {
		return g
	}
	out := *g
	out.PCI = slices.Clone(g.PCI)
	for i := range out.PCI {
		r := &out.PCI[i]
		r.Providers = nil
		for _, suffix := range r.Groups {
			if at := slices.IndexFunc(mappings, func(m Mapping) bool { return m.Suffix == suffix && len(m.Providers) > 0 }); at >= 0 {
				r.Providers = append(r.Providers, mappings[at].Providers[0].String())
			}
		}
	}
	return &out
}

// mapsDevices reports whether request groups ask Placement for some of the devices.
func mapsDevices(g *hardware.Guest) bool {
	return slices.ContainsFunc(g.PCI, func(r hardware.PCIRequest) bool { return len(r.Groups) > 0 })
}

// takeHardware takes an instance's part of the host's hardware; false if Nova fails to, and so counts no io
// operation. The row must be owned.
func (r *row) takeHardware(g *hardware.Guest, limited bool) bool {
	hw := r.hardware()
	if hw == nil || g.NUMA == nil && len(g.PCI) == 0 {
		return true
	}
	var ratios *hardware.Ratios
	if limited {
		ratios = new(r.ratios())
	}
	after, whole := hw.Consume(g, ratios)
	r.setHardware(after)
	return whole
}

// setHardware replaces the row's hardware. The row must be owned.
func (r *row) setHardware(after hardware.Host) {
	r.view.PCIFree += after.FreeDevices() - r.host.Facts.hardware.FreeDevices()
	host, facts := *r.host, *r.host.Facts
	if facts.reported == nil {
		reported := facts.hardware
		facts.reported = &reported
	}
	facts.hardware = after
	host.Facts = &facts
	r.host = &host
}

// SetAssigned takes what is assigned to instances from the NUMA cells and devices that a host reported. It replaces
// what was taken before. An assignment that does not fit the host's report takes nothing. SetAssigned reports false
// if the host does not exist.
func (e *Edit) SetAssigned(id ID, assigned []*hardware.Assignment) bool {
	at, ok := e.t.slots.get(id)
	if !ok {
		return false
	}
	hw := e.t.row(at).hardware()
	if hw == nil {
		return true
	}
	if was := e.t.row(at).host.Facts.reported; was != nil {
		hw = was
	} else if len(assigned) == 0 {
		return true
	}
	r, c := e.ownRow(at)
	after := *hw
	for _, a := range assigned {
		after, _ = after.Without(a)
	}
	r.setHardware(after)
	e.writeUsage(at, r, c)
	return true
}

// FreeDevices is the number of free PCI devices of the host.
func (f *Facts) FreeDevices() int64 {
	if f == nil {
		return 0
	}
	return f.hardware.FreeDevices()
}
