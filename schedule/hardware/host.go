package hardware

import "cellgate/internal/python"

// Host is what is free of a host's NUMA cells and PCI devices: it hands them out in individual pieces, which amounts
// cannot describe. It is immutable. The zero value has none.
type Host struct {
	// numa is nil without a topology, or with one that has no cells.
	numa *hostNUMA
	// pools are the reported ones; free is how many devices are left in each.
	pools []pciPool
	free  []int64
	// split: some provider's devices are in several pools, so that no request by providers can be met.
	split bool
}

// Ratios are the overcommit ratios of shared CPUs and memory: the allocation ratios of VCPU and MEMORY_MB.
type Ratios struct{ CPU, RAM float64 }

// maxHardware bounds the numbers in a host's report, so that sums and products of
// them stay in range.
const maxHardware = 1 << 40

// Problem says why a text of a host cannot be read.
type Problem struct {
	// Field is numa_topology or pci_stats.
	Field, Text string
}

func (p Problem) Error() string { return p.Field + ": " + p.Text }

// Read parses a host's NUMA topology and PCI pools, as in the columns numa_topology and pci_stats of compute_nodes; an
// empty text has none. If a text cannot be read, nothing of it is free. If a field is missing, only questions that need
// it raise an exception.
func Read(numa, pci string) (h Host, problems []Problem) {
	var problem string
	if numa != "" {
		if h.numa, problem = readHostNUMA(numa); problem != "" {
			problems = append(problems, Problem{"numa_topology", problem})
		}
	}
	if pci != "" {
		if h.pools, h.free, problem = readPools(pci); problem != "" {
			problems = append(problems, Problem{"pci_stats", problem})
		}
		h.split = splitProvider(h.pools)
	}
	return h, problems
}

// HasCells reports whether the host has NUMA cells; nil has none.
func (hw *Host) HasCells() bool { return hw != nil && hw.numa != nil }

// HasThreads reports whether some core of the NUMA cells has sibling threads.
func (hw *Host) HasThreads() (bool, *python.Exception) {
	if !hw.HasCells() || hw.numa.threads {
		return hw.HasCells(), nil
	}
	if hw.numa.lacks == "siblings" {
		return false, notLoaded("siblings")
	}
	return false, nil
}

// PageSizes gives the sizes of the memory pages of all NUMA cells, in KiB; a size may be repeated.
func (hw *Host) PageSizes() (sizes []int64) {
	if hw.HasCells() {
		for i := range hw.numa.cells {
			sizes = append(sizes, hw.numa.cells[i].sizes...)
		}
	}
	return sizes
}

// FreeDevices is the number of free devices.
func (hw *Host) FreeDevices() (n int64) {
	for _, free := range hw.free {
		n += free
	}
	return n
}

// dataOf gives the fields of a versioned object's primitive.
func dataOf(v *python.Value) (*python.Dict, bool) {
	if v.Kind != python.KindDict {
		return nil, false
	}
	d := v.Dict.Get("nova_object.data")
	if d.Kind != python.KindDict {
		return nil, false
	}
	return d.Dict, true
}

// small reads an integer of at most maxHardware in size.
func small(d *python.Dict, key string) (int64, bool) {
	v := d.Get(key)
	if v.Kind != python.KindInt || v.Int < -maxHardware || v.Int > maxHardware {
		return 0, false
	}
	return v.Int, true
}
