package schedule

import (
	"cellgate/internal/python"
	"cellgate/schedule/hardware"
)

// NUMAFilter keeps hosts whose NUMA cells can hold the guest's cells, with their CPUs, pages, devices and networks
// (filters/numa_topology_filter.py).
const NUMAFilter = hardware.FilterNUMA

func (s *scan) numaFilter() {
	n := s.nova
	if n.Image == nil && s.options.StrictNova {
		s.perHost(NUMAFilter, func(*row) (bool, *python.Exception) {
			return false, python.NewException("AttributeError", "'NoneType' object has no attribute 'properties'")
		})
		return
	}
	if n.NUMA == nil && !n.NeedThreads {
		return
	}
	if n.NUMA != nil {
		s.limit(func(r *row, l *Limits) { l.NUMA = &NUMALimits{r.view.CPURatio, r.view.RAMRatio} })
	}
	late := n.NUMA != nil && mapsDevices(&n.Guest)
	if late {
		s.late = append(s.late, NUMAFilter)
	}
	search := hardware.Search{Stop: s.stop}
	s.perHost(NUMAFilter, func(r *row) (bool, *python.Exception) {
		hw := r.hardware()
		if !hw.HasCells() {
			return n.NUMA == nil, nil
		}
		if n.NeedThreads {
			if has, err := hw.HasThreads(); !has {
				return false, err
			}
		}
		if n.NUMA == nil || late {
			return true, nil
		}
		return search.CellsFit(hw, &n.Guest, r.ratios())
	})
}

// PCIFilter keeps hosts that have the devices asked for
// (filters/pci_passthrough_filter.py).
const PCIFilter = hardware.FilterPCI

func (s *scan) pciFilter() {
	if len(s.nova.PCI) == 0 {
		return
	}
	late := mapsDevices(&s.nova.Guest)
	if late {
		s.late = append(s.late, PCIFilter)
	}
	var search hardware.Search
	s.perHost(PCIFilter, func(r *row) (bool, *python.Exception) {
		hw := r.hardware()
		if hw == nil || late {
			return hw != nil, nil
		}
		return search.DevicesFit(hw, &s.nova.Guest)
	})
}
