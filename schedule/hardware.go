package schedule

import "cellgate/internal/python"

// hardware is what a host hands out in individual pieces, which amounts cannot describe: NUMA cells and PCI devices.
// It is immutable.
type hardware struct {
	// numa is nil without a topology, or with one that has no cells.
	numa *hostNUMA
	// pools are the reported ones; free is how many devices are left in each.
	pools []pciPool
	free  []int64
	// split: some provider's devices are in several pools, so that no request by providers can be met.
	split bool
}

// maxHardware bounds the numbers in a host's report, so that sums and products of
// them stay in range.
const maxHardware = 1 << 40

// readHardware reads the topology and the pools. If one cannot be parsed as an object at all, Nova fails to read the
// host state. If it lacks a field, only a filter that reads the field fails.
func (f *Facts) readHardware() {
	f.hardware = parseHardware(f.NUMATopology, f.PCIPools, func(field, problem string) { f.fail(field, "ValueError: %s", problem) })
}

// parseHardware parses the texts of a topology and of pools, and calls fail for each that cannot be read.
func parseHardware(numa, pci string, fail func(field, problem string)) (h hardware) {
	var problem string
	if numa != "" {
		if h.numa, problem = readHostNUMA(numa); problem != "" {
			fail("numa_topology", problem)
		}
	}
	if pci != "" {
		if h.pools, h.free, problem = readPools(pci); problem != "" {
			fail("pci_stats", problem)
		}
		h.split = splitProvider(h.pools)
	}
	return h
}

// hardware is the host's hardware; nil if its compute has not reported.
func (r *row) hardware() *hardware {
	if f := r.host.Facts; f != nil && !f.Unfilled {
		return &f.hardware
	}
	return nil
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
