package schedule

import "math"

// The columns of raw weights in a chunk.
const (
	ramColumn = iota
	cpuColumn
	diskColumn
	ioOpsColumn
	instancesColumn
	pciColumn
	versionColumn
	failuresColumn
	columnCount
)

// rawColumns gives the raw weights that depend on a host's view alone, after clamping (nova/scheduler/weights:
// ram.py, cpu.py, disk.py, io_ops.py, num_instances.py, pci.py, hypervisor_version.py, compute.py). A ratio that is
// not finite makes the CPU weight 0.
func rawColumns(v *View) [columnCount]float64 {
	cpu := float64(float64(v.VCPUsTotal)*v.CPURatio) - float64(v.VCPUsUsed)
	if math.IsNaN(cpu) || math.IsInf(cpu, 0) {
		cpu = 0
	}
	return [columnCount]float64{
		ramColumn:       max(0, float64(v.FreeRAMMB)),
		cpuColumn:       max(0, cpu),
		diskColumn:      max(0, float64(v.FreeDiskMB)),
		ioOpsColumn:     max(0, float64(v.NumIOOps)),
		instancesColumn: float64(v.NumInstances),
		pciColumn:       float64(100 - min(v.PCIFree, 99)),
		versionColumn:   float64(v.HypervisorVersion),
		failuresColumn:  float64(v.FailedBuilds),
	}
}

// flat gives a column with one weight for all hosts.
func flat(x float64) *column {
	c := &column{lo: x, hi: x}
	for i := range c.v {
		c.v[i] = x
	}
	return c
}
