package schedule

import (
	"slices"

	"cellgate/internal/python"
	"cellgate/schedule/hardware"
)

// judging says which of the filters for NUMA cells and PCI devices run.
type judging struct{ numa, pci bool }

// judging gives the judging of the request under rules.
func (r *Request) judging(rules *Rules) judging {
	if r.Forced() {
		return judging{}
	}
	names := rules.filters()
	return judging{numa: slices.Contains(names, NUMAFilter), pci: slices.Contains(names, PCIFilter)}
}

// deviceJudge applies NUMATopologyFilter and PciPassthroughFilter to the providers that the groups of PCI devices get
// on a host, as Nova does for each allocation candidate (nova/scheduler/filters/__init__.py, CandidateFilterMixin,
// since 2023.1). The zero value is ready and reusable, with one stop.
type deviceJudge struct {
	by     judging
	row    *row
	nova   *NovaRequest
	search *hardware.Search // nil until it is needed: few searches of trees judge devices
	stop   func() bool      // treeSearch's, too
}

func (j *deviceJudge) begin(r *row, n *NovaRequest, by judging) {
	j.by, j.row, j.nova = by, r, n
	j.by.numa = by.numa && n.NUMA != nil
	if !mapsDevices(&n.Guest) {
		j.by = judging{}
	}
}

// idle reports whether neither filter runs.
func (j *deviceJudge) idle() bool { return j.by == judging{} }

// pass reports whether the host has the devices on these providers.
func (j *deviceJudge) pass(mappings []Mapping) (bool, *python.Exception) {
	hw := j.row.hardware()
	if hw == nil {
		return false, nil
	}
	if j.search == nil {
		j.search = &hardware.Search{Stop: j.stop}
	}
	g := WithProviders(&j.nova.Guest, mappings)
	if j.by.pci {
		if ok, err := j.search.DevicesFit(hw, g); !ok || err != nil {
			return false, err
		}
	}
	if !j.by.numa {
		return true, nil
	}
	return j.search.CellsFit(hw, g, j.row.ratios())
}

// judgeDevices adds the checks of the filters that judge the providers of PCI devices, in their configured order,
// after TreeFilter. Each check looks for an allocation candidate that the filters before it accept, too.
func (s *scan) judgeDevices() {
	by := judging{}
	s.trees.devices.stop = s.stop
	for _, filter := range s.late {
		by.numa, by.pci = by.numa || filter == NUMAFilter, by.pci || filter == PCIFilter
		asked := by
		s.perHost(filter, func(r *row) (bool, *python.Exception) { return s.trees.fits(r, s.q.Request, asked) })
	}
}
