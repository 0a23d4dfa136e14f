package schedule

import (
	"strconv"
	"unique"
)

// hardware is what of a host is handed out in pieces that amounts do not tell:
// NUMA cells and PCI devices. It is immutable.
type hardware struct {
	// text is the same for hosts that reported the same; not valid once a pick
	// took of it.
	text     unique.Handle[string]
	reported bool
	// numa is nil without a topology, or with one that has no cells.
	numa *hostNUMA
	// pools that were reported; free has the devices left in each.
	pools []pciPool
	free  []int64
	// split: the devices of some provider are in several pools, so that no request by providers is met.
	split bool
}

// maxHardware bounds the numbers in a host's report, so that sums and products of
// them stay in range.
const maxHardware = 1 << 40

// readHardware reads the topology and the pools. What cannot be read as an object
// at all fails the host state in Nova; what lacks a field fails who reads it.
func (f *Facts) readHardware() {
	f.hardware = parseHardware(f.NUMATopology, f.PCIPools, func(field, problem string) { f.fail(field, "ValueError: %s", problem) })
	f.hardware.reported = true
	f.hardware.text = unique.Make(strconv.Itoa(len(f.NUMATopology)) + " " + f.NUMATopology + f.PCIPools)
}

// parseHardware reads the texts of a topology and of pools; fail is called for each
// that is not readable.
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

// hardware is the host's; nil for a compute that has not reported.
func (r *row) hardware() *hardware {
	if f := r.host.Facts; f != nil && !f.Unfilled {
		return &f.hardware
	}
	return nil
}

// data gives the fields of a versioned object's primitive.
func (v *value) data() (*dict, bool) {
	if v.kind != object {
		return nil, false
	}
	d := v.dict.get("nova_object.data")
	if d.kind != object {
		return nil, false
	}
	return d.dict, true
}

// small reads an integer that is not absurd.
func (d *dict) small(key string) (int64, bool) {
	v := d.get(key)
	if v.kind != integer || v.i < -maxHardware || v.i > maxHardware {
		return 0, false
	}
	return v.i, true
}
