package schedule

import "slices"

// judging says which of the filters that read NUMA cells and PCI devices judge a host.
type judging struct{ numa, pci bool }

// judging is that of the request's hosts by rules.
func (r *Request) judging(rules *Rules) judging {
	if r.Forced() {
		return judging{}
	}
	names := rules.filters()
	return judging{numa: slices.Contains(names, NUMAFilter), pci: slices.Contains(names, PCIFilter)}
}

// deviceJudge asks NUMATopologyFilter and PciPassthroughFilter about the providers that the groups of PCI devices get on a
// host, as Nova does for each allocation candidate (nova/scheduler/filters/__init__.py, CandidateFilterMixin, since 2023.1).
// The zero value is ready and may be used again.
type deviceJudge struct {
	by     judging
	row    *row
	nova   *NovaRequest
	search pciSearch
}

func (j *deviceJudge) begin(r *row, n *NovaRequest, by judging) {
	j.by, j.row, j.nova = by, r, n
	j.by.numa = by.numa && n.NUMA != nil
	if !n.mapsDevices() {
		j.by = judging{}
	}
}

// idle reports whether there is nothing to judge.
func (j *deviceJudge) idle() bool { return j.by == judging{} }

// pass reports whether the host has the devices with these providers.
func (j *deviceJudge) pass(mappings []Mapping) (bool, *pyError) {
	hw := j.row.hardware()
	if hw == nil {
		return false, nil
	}
	n := j.nova.On(mappings)
	if j.by.pci {
		if ok, err := j.search.support(hw, n.PCI, nil); !ok || err != nil {
			return false, err
		}
	}
	if !j.by.numa {
		return true, nil
	}
	if hw.numa == nil {
		return false, nil
	}
	search := numaSearch{need: n.NUMA, limits: &numaLimits{j.row.view.CPURatio, j.row.view.RAMRatio}, pci: n.PCI, nets: n.Networks}
	return search.find(hw)
}

// judgeDevices adds the checks of the filters that judge the providers of PCI devices, in their configured order, after
// TreeFilter: each asks for an allocation candidate that the ones before it accept, too.
func (s *scan) judgeDevices() {
	by := judging{}
	for _, filter := range s.late {
		by.numa, by.pci = by.numa || filter == NUMAFilter, by.pci || filter == PCIFilter
		asked := by
		s.perHost(filter, func(r *row) (bool, *pyError) { return s.trees.fits(r, s.q.Request, asked) })
	}
}
