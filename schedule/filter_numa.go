package schedule

import "cellgate/internal/python"

// NUMAFilter keeps hosts whose NUMA cells can hold the guest's cells, with their CPUs, pages, devices and networks
// (filters/numa_topology_filter.py).
const NUMAFilter = "NUMATopologyFilter"

func (s *scan) numaFilter() {
	n := s.nova
	if n.Image == nil && s.options.StrictNova {
		s.perHost(NUMAFilter, func(*row) (bool, *python.Exception) {
			return false, python.Raise("AttributeError", "'NoneType' object has no attribute 'properties'")
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
	s.perHost(NUMAFilter, func(r *row) (bool, *python.Exception) {
		hw := r.hardware()
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
	s.perHost(PCIFilter, func(r *row) (bool, *python.Exception) {
		hw := r.hardware()
		if hw == nil || late {
			return hw != nil, nil
		}
		return search.support(hw, s.nova.PCI, nil)
	})
}
