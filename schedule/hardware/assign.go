package hardware

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The filters that judge a Check, by Nova's names.
const (
	FilterNUMA = "NUMATopologyFilter"
	FilterPCI  = "PciPassthroughFilter"
)

// Assignment is what an instance takes of a host's NUMA cells and PCI devices: which ones, and how much.
type Assignment struct {
	Cells   []AssignedCell    `json:"cells,omitempty"`
	Devices []AssignedDevices `json:"devices,omitempty"`
}

// AssignedCell is what an instance takes of one NUMA cell of a host.
type AssignedCell struct {
	// ID is the host cell's.
	ID int64 `json:"id"`
	// PageSize in KiB; 0 for the smallest that the host has.
	PageSize int64 `json:"page_size,omitempty"`
	MemoryMB int64 `json:"memory_mb,omitempty"`
	// CPUs share the cell's shared CPUs; Pinned are the numbers of dedicated CPUs.
	CPUs   int64 `json:"cpus,omitempty"`
	Pinned []int `json:"pinned,omitempty"`
}

// AssignedDevices are devices of one kind: of the pools whose devices have equal properties.
type AssignedDevices struct {
	// Pool is the properties of the devices: "product_id=20b5,vendor_id=10de".
	Pool  string `json:"pool"`
	Count int64  `json:"count"`
}

// Check is what an instance asks of a host, and which filters judge it.
type Check struct {
	Guest
	JudgeNUMA bool `json:"judge_numa,omitempty"`
	JudgePCI  bool `json:"judge_pci,omitempty"`
}

// Encode gives the check as JSON.
func (c *Check) Encode() []byte {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // Texts and whole numbers do not fail.
	}
	return b
}

// DecodeCheck reads what Encode wrote.
func DecodeCheck(b []byte) (*Check, error) {
	var c Check
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, err
	}
	if c.NUMA != nil && len(c.NUMA.Cells) == 0 {
		return nil, errors.New("numa.cells: must not be empty")
	}
	for i := range c.PCI {
		if c.PCI[i].Count < 1 {
			return nil, fmt.Errorf("pci[%d].count: is %d, must be at least 1", i, c.PCI[i].Count)
		}
	}
	return &c, nil
}

// Lack says what an instance does not find on a host.
type Lack struct {
	// Filter is the filter that rejects the host: FilterNUMA or FilterPCI.
	Filter string
	// Resource names what is missing: "dedicated CPUs", "pages of 2048 KiB", "product_id=20b5".
	Resource string
	// Message is for people.
	Message string
}

// Assign says what the instance would take of what is free, or what it lacks by the filters that judge it. If no
// filter judges it, it takes what there is.
func (hw *Host) Assign(c *Check, ratios Ratios) (*Assignment, *Lack) {
	if lack := hw.lack(c, ratios); lack != nil {
		return nil, lack
	}
	after, cells, _ := hw.consume(&c.Guest, &ratios)
	a := &Assignment{Cells: cells}
	for i, free := range hw.free {
		if n := free - after.free[i]; n != 0 {
			a.add(hw.pools[i].name(), n)
		}
	}
	return a, nil
}

func (a *Assignment) add(pool string, n int64) {
	for i := range a.Devices {
		if a.Devices[i].Pool == pool {
			a.Devices[i].Count += n
			return
		}
	}
	a.Devices = append(a.Devices, AssignedDevices{pool, n})
}

// Without gives the host without an assignment. If a cell, page, dedicated CPU or device of it is not free, it gives the
// host unchanged, and false. Memory and CPUs that may be overcommitted are not checked.
func (hw *Host) Without(a *Assignment) (after Host, ok bool) {
	after = *hw
	if len(a.Cells) > 0 {
		if hw.numa == nil {
			return *hw, false
		}
		for k := range a.Cells {
			c := &a.Cells[k]
			i := hw.numa.cell(c.ID)
			if i < 0 {
				return *hw, false
			}
			if c.PageSize == 0 {
				continue
			}
			if fits, _ := hw.numa.cells[i].holds(c.PageSize, c.MemoryMB*1024, true); !fits {
				return *hw, false
			}
		}
		if after.numa = hw.numa.with(a.Cells); after.numa == nil {
			return *hw, false
		}
	}
	if len(a.Devices) == 0 {
		return after, true
	}
	after.free = slices.Clone(hw.free)
	for _, d := range a.Devices {
		n := d.Count
		for i := range hw.pools {
			if n > 0 && hw.pools[i].name() == d.Pool {
				took := max(0, min(n, after.free[i]))
				after.free[i] -= took
				n -= took
			}
		}
		if n > 0 {
			return *hw, false
		}
	}
	return after, true
}

// name identifies the kind of a pool's devices.
func (p *pciPool) name() string {
	parts := make([]string, 0, len(p.properties)+1)
	for i := range p.properties {
		parts = append(parts, p.properties[i].text())
	}
	if p.hasNode {
		parts = append(parts, pciNode+"="+strconv.FormatInt(p.node, 10))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func (p *PCIProperty) text() string {
	if p.None {
		return p.Key
	}
	return p.Key + "=" + p.Value
}

// lack applies the filters as they are applied to a host; nil if they pass.
func (hw *Host) lack(c *Check, ratios Ratios) *Lack {
	if c.JudgeNUMA && c.NUMA != nil && !hw.cellsFit(&c.Guest, ratios) {
		what := hw.numaLack(&c.Guest, ratios)
		return &Lack{FilterNUMA, what, "not enough " + what}
	}
	if !c.JudgePCI {
		return nil
	}
	var s deviceSearch
	for i := range c.PCI {
		if ok, err := s.support(hw, c.PCI[:i+1], nil); !ok || err != nil {
			r := &c.PCI[i]
			what, of := r.text(), ""
			if len(r.Groups) > 0 {
				of = " of the providers " + strings.Join(r.Providers, ", ")
			}
			return &Lack{FilterPCI, what, fmt.Sprintf("not enough devices %s%s: %d asked for, %d free", what, of, r.Count, max(0, s.left()))}
		}
	}
	return nil
}

// cellsFit is Search.CellsFit; what raises does not fit.
func (hw *Host) cellsFit(g *Guest, ratios Ratios) bool {
	var s Search
	ok, err := s.CellsFit(hw, g, ratios)
	return ok && err == nil
}

// numaLack says what keeps the guest's cells from fitting: they fit without it.
func (hw *Host) numaLack(g *Guest, ratios Ratios) string {
	relaxed := *g
	fit := func(change func(c *InstanceCell)) bool {
		numa := *g.NUMA
		numa.Cells = slices.Clone(numa.Cells)
		for i := range numa.Cells {
			change(&numa.Cells[i])
		}
		relaxed.NUMA = &numa
		return hw.cellsFit(&relaxed, ratios)
	}
	as := func(*InstanceCell) {}
	if relaxed.Networks = nil; fit(as) {
		return "networks near the NUMA cells"
	}
	if relaxed.PCI = nil; fit(as) {
		return "devices near the NUMA cells"
	}
	ratios = Ratios{math.Inf(1), math.Inf(1)}
	first := &g.NUMA.Cells[0]
	if fit(func(c *InstanceCell) { c.CPUs, c.Dedicated, c.Policy = 0, 0, "" }) {
		if first.Pinned() {
			return "dedicated CPUs"
		}
		return "CPUs"
	}
	if fit(func(c *InstanceCell) { c.MemoryMB, c.PageSize = 0, 0 }) {
		switch {
		case first.PageSize > 0:
			return fmt.Sprintf("pages of %d KiB", first.PageSize)
		case first.PageSize < 0:
			return "pages"
		}
		return "memory"
	}
	return "NUMA cells"
}

// maxSpecText bounds the text of requested devices in a refusal.
const maxSpecText = 120

// text describes the requested devices.
func (r *PCIRequest) text() string {
	var specs []string
	for _, spec := range r.Specs {
		parts := make([]string, len(spec))
		for i := range spec {
			parts[i] = spec[i].text()
		}
		specs = append(specs, strings.Join(parts, ","))
	}
	s := cmp.Or(strings.Join(specs, " or "), "of any kind")
	return strings.ToValidUTF8(s[:min(len(s), maxSpecText)], "")
}
