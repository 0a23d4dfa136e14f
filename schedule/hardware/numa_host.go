package hardware

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"cellgate/internal/python"
)

// hostNUMA is a host's NUMA topology with its usage (nova/objects/numa.py). It has at least one cell and is never
// changed.
type hostNUMA struct {
	cells []hostCell
	// threads: some core has sibling threads.
	threads bool
	// lacks is a field that an old compute did not report of some cell; reading it raises. noCPUs and noSocket are
	// the same for fields that only some requests read.
	lacks    string
	noCPUs   bool
	noSocket bool
}

type hostCell struct {
	id int64
	// shared and dedicated CPUs, and those of the latter that are pinned.
	shared, dedicated, pinned cpuSet
	// siblings are the threads of each core, in ascending order.
	siblings                      [][]int
	memory, memoryUsed, cpuUsage  int64
	pages                         []hostPages
	sizes                         []int64 // of pages, descending
	socket                        int64
	hasSocket                     bool
	physnets                      []string
	tunneled                      bool
	nShared, nDedicated, freeCPUs int
	// threadsPerCore is the greatest number of threads of a core.
	threadsPerCore int
	// freeCores[k] counts the cores with at least k free dedicated threads; freeThreads counts all free threads on
	// cores.
	freeCores   []int
	freeThreads int
	// alike: shared and dedicated CPUs are the same set, as with vcpu_pin_set.
	alike bool
}

type hostPages struct{ size, total, used, reserved int64 }

// readHostNUMA parses a serialized NUMATopology, or the older form without objects. It is nil if there are no cells.
func readHostNUMA(text string) (h *hostNUMA, problem string) {
	v, err := python.ParseJSON(text)
	if err != nil {
		return nil, err.Error()
	}
	h = &hostNUMA{}
	top, isObject := dataOf(&v)
	switch {
	case isObject:
	case v.Kind == python.KindDict && !strings.Contains(text, "nova_object.name"):
		top = v.Dict // Legacy.
	default:
		return nil, "must be a NUMATopology object"
	}
	cells := top.Get("cells")
	if cells.Kind != python.KindList && cells.Kind != python.KindNone || len(cells.List) > maxHostCells {
		return nil, "cells must be a list of at most " + strconv.Itoa(maxHostCells)
	}
	for i := range cells.List {
		var c hostCell
		if isObject {
			c, problem = h.readCell(&cells.List[i])
		} else {
			c, problem = h.readLegacyCell(&cells.List[i])
		}
		if problem != "" {
			return nil, "cells[" + strconv.Itoa(i) + "]: " + problem
		}
		c.sum()
		h.threads = h.threads || c.threadsPerCore > 1
		h.cells = append(h.cells, c)
	}
	if len(h.cells) == 0 {
		return nil, ""
	}
	return h, ""
}

// maxHostCells is the number of bits in a uint64.
const maxHostCells = 64

func (h *hostNUMA) readCell(v *python.Value) (c hostCell, problem string) {
	d, ok := dataOf(v)
	if !ok {
		return c, "must be a NUMACell object"
	}
	note := func(field string, ok bool) {
		switch {
		case ok:
		case d.Get(field).Kind == python.KindNone && field == "pcpuset":
			h.noCPUs = true
		case d.Get(field).Kind == python.KindNone && h.lacks == "":
			h.lacks = field
		case d.Get(field).Kind != python.KindNone && problem == "":
			problem = field + " cannot be read"
		}
	}
	for field, to := range map[string]*int64{
		"id": &c.id, "memory": &c.memory, "cpu_usage": &c.cpuUsage, "memory_usage": &c.memoryUsed,
	} {
		n, ok := small(d, field)
		*to = n
		note(field, ok)
	}
	for field, to := range map[string]*cpuSet{"cpuset": &c.shared, "pcpuset": &c.dedicated, "pinned_cpus": &c.pinned} {
		v := d.Get(field)
		cpus, ok := readCPUs(&v)
		for _, cpu := range cpus {
			*to = to.with(cpu)
		}
		note(field, ok)
	}
	siblings := d.Get("siblings")
	note("siblings", siblings.Kind == python.KindList)
	for i := range siblings.List {
		cpus, ok := readCPUs(&siblings.List[i])
		note("siblings", ok)
		c.siblings = append(c.siblings, cpus)
	}
	note("mempages", c.readPages(d.Get("mempages")))
	if s := d.Get("socket"); s.Kind != python.KindNone {
		c.socket, c.hasSocket = small(d, "socket")
		note("socket", c.hasSocket)
	} else if _, there := d.Lookup("socket"); !there {
		h.noSocket = true
	}
	if n := d.Get("network_metadata"); n.Kind != python.KindNone {
		note("network_metadata", c.readNetworks(&n))
	}
	return c, problem
}

// maxPageKB is the largest page that a CPU has: 16 GiB, of ARM and POWER.
const maxPageKB = 1 << 24

func (c *hostCell) readPages(pages python.Value) bool {
	for i := range pages.List {
		d, ok := dataOf(&pages.List[i])
		if !ok {
			return false
		}
		var p hostPages
		var okSize, okTotal bool
		p.size, okSize = small(d, "size_kb")
		p.total, okTotal = small(d, "total")
		p.used, _ = small(d, "used")
		p.reserved, _ = small(d, "reserved")
		if !okSize || !okTotal || p.size < 1 || p.size > maxPageKB {
			return false
		}
		c.pages = append(c.pages, p)
	}
	return pages.Kind == python.KindList
}

func (c *hostCell) readNetworks(v *python.Value) bool {
	d, ok := dataOf(v)
	if !ok {
		return false
	}
	physnets, tunneled := d.Get("physnets"), d.Get("tunneled")
	for i := range physnets.List {
		c.physnets = append(c.physnets, physnets.List[i].Text)
	}
	c.tunneled = tunneled.Truth()
	return true
}

// readLegacyCell parses a cell in the older form without objects.
func (h *hostNUMA) readLegacyCell(v *python.Value) (c hostCell, problem string) {
	if v.Kind != python.KindDict {
		return c, "must be an object"
	}
	h.noCPUs, h.noSocket = true, true
	c.id, _ = small(v.Dict, "id")
	c.cpuUsage, _ = small(v.Dict, "cpu_usage")
	if mem := v.Dict.Get("mem"); mem.Kind == python.KindDict {
		c.memory, _ = small(mem.Dict, "total")
		c.memoryUsed, _ = small(mem.Dict, "used")
	}
	var ok bool
	if c.shared, ok = parseCPUSpec(v.Dict.Get("cpus").Text); !ok {
		problem = "cpus cannot be read"
	}
	return c, problem
}

// readCPUs reads a list of CPUs, in ascending order.
func readCPUs(v *python.Value) ([]int, bool) {
	if v.Kind != python.KindList {
		return nil, false
	}
	out := make([]int, 0, len(v.List))
	for i := range v.List {
		e := &v.List[i]
		if e.Kind != python.KindInt || e.Int < 0 || e.Int > maxCPU {
			return nil, false
		}
		out = append(out, int(e.Int))
	}
	slices.Sort(out)
	return slices.Compact(out), true
}

// parseCPUSpec reads "0-3,^2,8" (nova/virt/hardware.py, parse_cpu_spec).
func parseCPUSpec(spec string) (cpuSet, bool) {
	var in, out cpuSet
	for rule := range strings.SplitSeq(spec, ",") {
		rule = python.Strip(rule)
		if rule == "" {
			continue
		}
		to := &in
		if strings.HasPrefix(rule, "^") {
			to, rule = &out, rule[1:]
		}
		from, until, isRange := strings.Cut(rule, "-")
		if !isRange {
			until = from
		}
		a, okA := python.Int(python.Strip(from))
		b, okB := python.Int(python.Strip(until))
		if !okA || !okB || a < 0 || b < a || b > maxCPU {
			return nil, false
		}
		for cpu := a; cpu <= b; cpu++ {
			*to = to.with(int(cpu))
		}
	}
	return in.without(out), true
}

// sum computes the derived fields.
func (c *hostCell) sum() {
	c.nShared, c.nDedicated = c.shared.count(), c.dedicated.count()
	free := c.dedicated.without(c.pinned)
	c.freeCPUs = free.count()
	c.alike = c.shared.equal(c.dedicated)
	c.threadsPerCore, c.freeThreads = 0, 0
	for _, core := range c.siblings {
		c.threadsPerCore = max(c.threadsPerCore, len(core))
	}
	c.freeCores = make([]int, c.threadsPerCore+2)
	for _, core := range c.siblings {
		n := 0
		for _, cpu := range core {
			if free.has(cpu) {
				n++
				c.freeCores[n]++
			}
		}
		c.freeThreads += n
	}
	c.sizes = c.sizes[:0:0]
	for _, p := range c.pages {
		c.sizes = append(c.sizes, p.size)
	}
	slices.SortFunc(c.sizes, func(a, b int64) int { return cmp.Compare(b, a) })
}
