package schedule

import "unique"

// NUMAFilter keeps hosts whose NUMA cells can hold the guest's cells, with their CPUs, pages, devices and networks
// (filters/numa_topology_filter.py).
const NUMAFilter = "NUMATopologyFilter"

func (s *scan) numaFilter() {
	n := s.nova
	if n.Image == nil && s.options.StrictNova {
		s.perHost(NUMAFilter, func(*row) (bool, *pyError) {
			return false, &pyError{"AttributeError", "'NoneType' object has no attribute 'properties'"}
		})
		return
	}
	if n.NUMA == nil && !n.NeedThreads {
		return
	}
	if n.NUMA != nil {
		s.limit(func(r *row, l *Limits) { l.NUMA = &NUMALimits{r.view.CPURatio, r.view.RAMRatio} })
	}
	late := n.NUMA != nil && n.mapsDevices()
	if late {
		s.late = append(s.late, NUMAFilter)
	}
	search := numaSearch{need: n.NUMA, limits: &numaLimits{}, stop: s.stop, pci: n.PCI, nets: n.Networks}
	s.perHardware(NUMAFilter, func(r *row, hw *hardware) (bool, *pyError) {
		if hw == nil || hw.numa == nil {
			return n.NUMA == nil, nil
		}
		if n.NeedThreads && !hw.numa.threads {
			if hw.numa.lacks == "siblings" {
				return false, notLoaded("siblings")
			}
			return false, nil
		}
		if n.NUMA == nil || late {
			return true, nil
		}
		*search.limits = numaLimits{r.view.CPURatio, r.view.RAMRatio}
		return search.find(hw)
	})
}

// PCIFilter keeps hosts that have the devices asked for
// (filters/pci_passthrough_filter.py).
const PCIFilter = "PciPassthroughFilter"

func (s *scan) pciFilter() {
	if len(s.nova.PCI) == 0 {
		return
	}
	late := s.nova.mapsDevices()
	if late {
		s.late = append(s.late, PCIFilter)
	}
	var search pciSearch
	s.perHardware(PCIFilter, func(_ *row, hw *hardware) (bool, *pyError) {
		if hw == nil || late {
			return hw != nil, nil
		}
		return search.support(hw, s.nova.PCI, nil)
	})
}

// likeness is everything that a filter's result for a host's hardware depends on.
type likeness struct {
	text     unique.Handle[string]
	cpu, ram float64
}

// maxLikenesses bounds the results that a query keeps. In a fleet with load few hosts are alike, so keeping more
// costs as much as evaluating again.
const maxLikenesses = 512

// perHardware makes a check that judges hosts with equal reports and ratios once. hw is nil for hosts that reported
// nothing.
func (s *scan) perHardware(filter string, ask func(r *row, hw *hardware) (bool, *pyError)) {
	known := map[likeness]bool{}
	s.perHost(filter, func(r *row) (bool, *pyError) {
		hw := r.hardware()
		if hw == nil || !hw.reported {
			return ask(r, hw)
		}
		like := likeness{hw.text, r.view.CPURatio, r.view.RAMRatio}
		if ok, found := known[like]; found {
			return ok, nil
		}
		ok, err := ask(r, hw)
		if err == nil && len(known) < maxLikenesses {
			known[like] = ok
		}
		return ok, err
	})
}
