package schedule

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

// GuestCheck is what an instance asks of a host's NUMA cells and devices. NUMA and PCI say which of their filters
// judge it. Of Nova, only NUMA, PCI and Networks are read.
type GuestCheck struct {
	Nova      *NovaRequest
	NUMA, PCI bool
}

// guestText is a GuestCheck as JSON.
type guestText struct {
	NUMA      *InstanceNUMA `json:"numa,omitempty"`
	PCI       []PCIRequest  `json:"pci,omitempty"`
	Networks  *NetworkNeeds `json:"networks,omitempty"`
	JudgeNUMA bool          `json:"judge_numa,omitempty"`
	JudgePCI  bool          `json:"judge_pci,omitempty"`
}

// Encode gives the check as JSON.
func (g *GuestCheck) Encode() []byte {
	b, err := json.Marshal(guestText{g.Nova.NUMA, g.Nova.PCI, g.Nova.Networks, g.NUMA, g.PCI})
	if err != nil {
		panic(err) // Texts and whole numbers do not fail.
	}
	return b
}

// DecodeGuest reads what Encode wrote.
func DecodeGuest(b []byte) (*GuestCheck, error) {
	var in guestText
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, err
	}
	if in.NUMA != nil && len(in.NUMA.Cells) == 0 {
		return nil, errors.New("numa.cells: must not be empty")
	}
	for i := range in.PCI {
		if in.PCI[i].Count < 1 {
			return nil, fmt.Errorf("pci[%d].count: is %d, must be at least 1", i, in.PCI[i].Count)
		}
	}
	return &GuestCheck{Nova: &NovaRequest{NUMA: in.NUMA, PCI: in.PCI, Networks: in.Networks}, NUMA: in.JudgeNUMA, PCI: in.JudgePCI}, nil
}

// WithProviders gives an encoded GuestCheck with the providers of another allocation's mappings.
func WithProviders(guest []byte, mappings []Mapping) ([]byte, error) {
	g, err := DecodeGuest(guest)
	if err != nil {
		return nil, err
	}
	g.Nova = g.Nova.On(mappings)
	return g.Encode(), nil
}

// Hardware is what is free of a host's NUMA cells and PCI devices.
type Hardware struct {
	left   hardware
	limits numaLimits
}

// ReadHardware parses a host's texts (FactTexts.NUMATopology, FactTexts.PCIPools). The ratios are the allocation
// ratios of its VCPU and MEMORY_MB. If a text cannot be read, nothing of it is free, and the error says why.
func ReadHardware(numa, pci string, cpuRatio, ramRatio float64) (*Hardware, error) {
	var err error
	left := parseHardware(numa, pci, func(field, problem string) {
		if err == nil {
			err = fmt.Errorf("%s: %s", field, problem)
		}
	})
	return &Hardware{left, numaLimits{cpuRatio, ramRatio}}, err
}

// Lack says what an instance does not find on a host.
type Lack struct {
	// Filter is the filter that rejects the host.
	Filter string
	// Resource names what is missing: "dedicated CPUs", "pages of 2048 KiB", "product_id=20b5".
	Resource string
	// Message is for people.
	Message string
}

// Assign says what the instance would take of what is free, or what it lacks by the filters that judge it. If no
// filter judges it, it takes what there is. Assign takes nothing.
func (h *Hardware) Assign(g *GuestCheck) (*Assignment, *Lack) {
	if lack := g.lack(&h.left, &h.limits); lack != nil {
		return nil, lack
	}
	after, cells, _ := h.left.assign(g.Nova, &h.limits)
	a := &Assignment{Cells: cells}
	for i, free := range h.left.free {
		if n := free - after.free[i]; n != 0 {
			a.add(h.left.pools[i].name(), n)
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

// Take takes an assignment. If some of it is not free, it takes nothing and reports false.
func (h *Hardware) Take(a *Assignment) bool {
	after, ok := h.left.less(a)
	h.left = after
	return ok
}

// less gives the hardware without an assignment. If a cell, page, dedicated CPU or device of it is not free, it gives
// the hardware unchanged, and false. Memory and CPUs that may be overcommitted are not checked.
func (hw *hardware) less(a *Assignment) (after hardware, ok bool) {
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
func (g *GuestCheck) lack(hw *hardware, limits *numaLimits) *Lack {
	n := g.Nova
	if g.NUMA && n.NUMA != nil && !n.finds(hw, limits) {
		what := n.numaLack(hw, *limits)
		return &Lack{NUMAFilter, what, "not enough " + what}
	}
	if !g.PCI {
		return nil
	}
	var s pciSearch
	for i := range n.PCI {
		if ok, err := s.support(hw, n.PCI[:i+1], nil); !ok || err != nil {
			r := &n.PCI[i]
			what, of := r.text(), ""
			if len(r.Groups) > 0 {
				of = " of the providers " + strings.Join(r.Providers, ", ")
			}
			return &Lack{PCIFilter, what, fmt.Sprintf("not enough devices %s%s: %d asked for, %d free", what, of, r.Count, max(0, s.left()))}
		}
	}
	return nil
}

// finds reports whether the guest's NUMA cells fit.
func (n *NovaRequest) finds(hw *hardware, limits *numaLimits) bool {
	if hw.numa == nil {
		return false
	}
	s := numaSearch{need: n.NUMA, limits: limits, pci: n.PCI, nets: n.Networks}
	ok, err := s.find(hw)
	return ok && err == nil
}

// numaLack says what keeps the guest's cells from fitting: they fit without it.
func (n *NovaRequest) numaLack(hw *hardware, limits numaLimits) string {
	relaxed := *n
	finds := func(change func(c *InstanceCell)) bool {
		numa := *n.NUMA
		numa.Cells = slices.Clone(numa.Cells)
		for i := range numa.Cells {
			change(&numa.Cells[i])
		}
		relaxed.NUMA = &numa
		return relaxed.finds(hw, &limits)
	}
	as := func(*InstanceCell) {}
	if relaxed.Networks = nil; finds(as) {
		return "networks near the NUMA cells"
	}
	if relaxed.PCI = nil; finds(as) {
		return "devices near the NUMA cells"
	}
	limits.cpuRatio, limits.ramRatio = math.Inf(1), math.Inf(1)
	first := &n.NUMA.Cells[0]
	if finds(func(c *InstanceCell) { c.CPUs, c.Dedicated, c.Policy = 0, 0, "" }) {
		if first.pinned() {
			return "dedicated CPUs"
		}
		return "CPUs"
	}
	if finds(func(c *InstanceCell) { c.MemoryMB, c.PageSize = 0, 0 }) {
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
