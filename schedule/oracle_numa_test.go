package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"cellgate/schedule/hardware"
)

// The oracle of NUMA and PCI has one function for each of nova/virt/hardware.py and
// nova/pci/stats.py that judges a host's report. It uses sets of CPUs, tries every permutation, and
// takes no shortcut.

// naiveHardware is a host's topology and pools, parsed from its texts.
type naiveHardware struct {
	cells []*naiveCell
	pools []*naivePool
	// split: two pools belong to one provider.
	split bool
}

type naiveCell struct {
	ID          int64   `json:"id"`
	CPUs        []int   `json:"cpuset"`
	PCPUs       []int   `json:"pcpuset"`
	Pinned      []int   `json:"pinned_cpus"`
	Siblings    [][]int `json:"siblings"`
	Memory      int64   `json:"memory"`
	MemoryUsage int64   `json:"memory_usage"`
	CPUUsage    int64   `json:"cpu_usage"`
	Socket      *int64  `json:"socket"`
	Pages       []struct {
		Data naivePage `json:"nova_object.data"`
	} `json:"mempages"`
	Network struct {
		Data struct {
			Physnets []string `json:"physnets"`
			Tunneled bool     `json:"tunneled"`
		} `json:"nova_object.data"`
	} `json:"network_metadata"`
}

type naivePage struct {
	Size     int64 `json:"size_kb"`
	Total    int64 `json:"total"`
	Used     int64 `json:"used"`
	Reserved int64 `json:"reserved"`
}

type naivePool struct {
	Vendor  string            `json:"vendor_id"`
	Product string            `json:"product_id"`
	Node    *int64            `json:"numa_node"`
	Tags    map[string]string `json:"tags"`
	Count   int64             `json:"count"`
}

func readNaiveHardware(f *Facts) *naiveHardware {
	if f == nil || f.Unfilled {
		return nil
	}
	h := &naiveHardware{}
	var numa struct {
		Data struct {
			Cells []struct {
				Data naiveCell `json:"nova_object.data"`
			} `json:"cells"`
		} `json:"nova_object.data"`
	}
	var pools struct {
		Data struct {
			Objects []struct {
				Data naivePool `json:"nova_object.data"`
			} `json:"objects"`
		} `json:"nova_object.data"`
	}
	for text, to := range map[string]any{f.NUMATopology: &numa, f.PCIPools: &pools} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), to); err != nil {
			panic(err)
		}
	}
	for i := range numa.Data.Cells {
		h.cells = append(h.cells, &numa.Data.Cells[i].Data)
	}
	for i := range pools.Data.Objects {
		p := &pools.Data.Objects[i].Data
		id, provided := p.Tags["rp_uuid"]
		h.split = h.split || provided && slices.ContainsFunc(h.pools, func(x *naivePool) bool { return x.Tags["rp_uuid"] == id })
		h.pools = append(h.pools, p)
	}
	sort.SliceStable(h.pools, func(i, j int) bool { return len(h.pools[i].Tags) < len(h.pools[j].Tags) })
	return h
}

// naiveGuest is a cell of the guest, which Nova changes while it searches for a place.
type naiveGuest struct {
	hardware.InstanceCell
	pinned   []int // host CPUs
	reserved []int
}

var errNoSiblings = errors.New("max() arg is an empty sequence")

func minus(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(x int) bool { return slices.Contains(b, x) })
}

func (c *naiveCell) free() []int { return minus(c.PCPUs, c.Pinned) }

func (c *naiveCell) canFitPages(size, memory int64, free bool) bool {
	for _, p := range c.Pages {
		if p.Data.Size == size {
			n := p.Data.Total
			if free {
				n -= p.Data.Used + p.Data.Reserved
			}
			return memory <= n*size && memory%size == 0
		}
	}
	return false
}

func (c *naiveCell) pageSizes() (sizes []int64) {
	for _, p := range c.Pages {
		sizes = append(sizes, p.Data.Size)
	}
	slices.Sort(sizes)
	return sizes
}

func (c *naiveCell) pageSizeFor(g *naiveGuest) int64 {
	sizes := c.pageSizes()
	slices.Reverse(sizes)
	switch {
	case g.PageSize > 0:
		sizes = []int64{g.PageSize}
	case len(sizes) == 0:
	case g.PageSize == hardware.PageSmall:
		sizes = sizes[len(sizes)-1:]
	case g.PageSize == hardware.PageLarge:
		sizes = sizes[:len(sizes)-1]
	}
	for _, s := range sizes {
		if c.canFitPages(s, g.MemoryMB*1024, true) {
			return s
		}
	}
	return 0
}

// fit implements _numa_fit_instance_cell.
func (c *naiveCell) fit(g *naiveGuest, cpuRatio, ramRatio float64, limited bool, reserve int) (bool, error) {
	if g.PageSize != 0 {
		size := c.pageSizeFor(g)
		if size == 0 {
			return false, nil
		}
		g.PageSize = size
	} else if len(c.Pages) > 0 {
		if !c.canFitPages(c.pageSizes()[0], g.MemoryMB*1024, false) {
			return false, nil
		}
	} else if g.MemoryMB > c.Memory {
		return false, nil
	}
	dedicated := g.Policy == hardware.CPUDedicated || g.Policy == hardware.CPUMixed
	shared := g.Policy != hardware.CPUDedicated
	if dedicated && g.Dedicated+reserve > len(c.PCPUs) || shared && g.CPUs > len(c.CPUs) {
		return false, nil
	}
	if dedicated {
		if g.Dedicated+reserve > len(c.free()) || g.MemoryMB > c.Memory-c.MemoryUsage {
			return false, nil
		}
		ok, err := c.pack(g, reserve)
		if !ok || err != nil {
			return false, err
		}
	}
	if shared && limited {
		if float64(c.CPUUsage+int64(g.CPUs)) > float64(len(c.CPUs))*cpuRatio {
			return false, nil
		}
		if float64(c.MemoryUsage+g.MemoryMB) > float64(c.Memory)*ramRatio {
			return false, nil
		}
	}
	g.ID = c.ID
	return true, nil
}

// pack implements _pack_instance_onto_cores.
func (c *naiveCell) pack(g *naiveGuest, reserve int) (bool, error) {
	if len(c.Siblings) == 0 {
		return false, errNoSiblings
	}
	perCore := 0
	sets := map[int][][]int{}
	for _, core := range c.Siblings {
		perCore = max(perCore, len(core))
		left := slices.DeleteFunc(slices.Clone(core), func(x int) bool { return !slices.Contains(c.free(), x) })
		slices.Sort(left)
		for n := 1; n <= len(left); n++ {
			sets[n] = append(sets[n], left)
		}
	}
	perCore = max(1, perCore)
	pinning := func(each int, of [][]int) (cpus []int) {
		if each*len(of) < g.Dedicated {
			return nil
		}
		for _, core := range of {
			cpus = append(cpus, core[:min(each, len(core))]...)
		}
		return cpus[:min(g.Dedicated, len(cpus))]
	}
	reserved := func(of [][]int, pinned []int, isolate bool) (cpus []int) {
		if len(pinned) == 0 {
			return nil
		}
		for _, core := range of {
			if isolate && len(minus(core, pinned)) < len(core) {
				continue
			}
			cpus = append(cpus, minus(core, pinned)...)
		}
		return cpus[:min(reserve, len(cpus))]
	}
	var pins, extra []int
	good := func() bool { return len(pins) > 0 && (reserve == 0 || len(extra) > 0) }
	if g.Threads == hardware.ThreadIsolate {
		same := len(minus(c.CPUs, c.PCPUs)) == 0 && len(minus(c.PCPUs, c.CPUs)) == 0
		if len(sets[perCore]) == 0 || perCore != 1 && !same {
			return false, nil
		}
		pins = pinning(1, sets[perCore])
		extra = reserved(sets[1], pins, true)
	} else {
		if g.Threads == hardware.ThreadRequire && perCore <= 1 {
			return false, nil
		}
		for n := perCore; n >= 1; n-- {
			if len(sets[n]) == 0 || g.Threads == hardware.ThreadRequire && n <= 1 {
				continue
			}
			pins = pinning(n, sets[n])
			extra = reserved(sets[1], pins, false)
			if good() {
				break
			}
		}
		if g.Threads != hardware.ThreadRequire && len(pins) == 0 {
			var each [][]int
			for _, core := range sets[1] {
				for _, cpu := range core {
					each = append(each, []int{cpu})
				}
			}
			pins = pinning(1, each)
			extra = reserved(each, pins, false)
		}
	}
	if !good() {
		return false, nil
	}
	g.pinned, g.reserved, g.ID = pins, extra, c.ID
	return true, nil
}

// fit implements numa_fit_instance_to_host; nil: the guest does not fit.
func (h *naiveHardware) fit(n *NovaRequest, cpuRatio, ramRatio float64, limited bool) ([]*naiveGuest, error) {
	var guest []*naiveGuest
	for _, c := range n.NUMA.Cells {
		guest = append(guest, &naiveGuest{InstanceCell: c})
	}
	cells := slices.Clone(h.cells)
	if len(cells) < len(guest) {
		return nil, nil
	}
	if len(cells) > len(guest) {
		by := func(key func(c *naiveCell) int64) {
			sort.SliceStable(cells, func(i, j int) bool { return key(cells[i]) < key(cells[j]) })
		}
		by(func(c *naiveCell) int64 { return -(c.Memory - c.MemoryUsage) })
		if p := guest[0].Policy; p == "" || p == hardware.CPUShared {
			by(func(c *naiveCell) int64 { return c.CPUUsage })
		} else {
			by(func(c *naiveCell) int64 { return -int64(len(c.free())) })
		}
		by(func(c *naiveCell) (n64 int64) {
			for _, p := range h.pools {
				if p.Node != nil && *p.Node == c.ID {
					n64 += p.Count
				}
			}
			if len(n.PCI) > 0 {
				return -n64
			}
			return n64
		})
	}
	type pair struct{ host, guest int64 }
	fits, unfit := map[pair]bool{}, map[pair]bool{}
	var found []*naiveGuest
	var failure error
	try := func(perm []*naiveCell) bool {
		var chosen []*naiveGuest
		for k, c := range perm {
			g := guest[k]
			p := pair{c.ID, g.ID}
			if unfit[p] {
				return false
			}
			if !fits[p] {
				reserve := 0
				if n.NUMA.IsolateEmulator && len(chosen) == 0 {
					reserve = 1
				}
				ok, err := c.fit(g, cpuRatio, ramRatio, limited, reserve)
				if err != nil {
					failure = err
					return true
				}
				if !ok {
					unfit[p] = true
					return false
				}
				fits[p] = true
			}
			g.ID = c.ID
			chosen = append(chosen, g)
		}
		var ids []int64
		for _, g := range chosen {
			ids = append(ids, g.ID)
		}
		if len(n.PCI) > 0 && !h.apply(h.copyPools(), n.PCI, ids) {
			return false
		}
		if limited && n.Networks != nil && !h.near(perm, n.Networks) {
			return false
		}
		found = chosen
		return true
	}
	var permute func(perm []*naiveCell) bool
	permute = func(perm []*naiveCell) bool {
		if len(perm) == len(guest) {
			return try(perm)
		}
		for _, c := range cells {
			if !slices.Contains(perm, c) && permute(append(slices.Clone(perm), c)) {
				return true
			}
		}
		return false
	}
	permute(nil)
	return found, failure
}

func (h *naiveHardware) near(perm []*naiveCell, n *hardware.NetworkNeeds) bool {
	left := slices.Clone(n.Physnets)
	for _, c := range perm {
		left = slices.DeleteFunc(left, func(p string) bool { return slices.Contains(c.Network.Data.Physnets, p) })
	}
	for _, c := range h.cells {
		for _, p := range left {
			if slices.Contains(c.Network.Data.Physnets, p) {
				return false
			}
		}
	}
	tunnel := func(c *naiveCell) bool { return c.Network.Data.Tunneled }
	return !n.Tunneled || slices.ContainsFunc(perm, tunnel) || !slices.ContainsFunc(h.cells, tunnel)
}

func (h *naiveHardware) copyPools() *[]*naivePool {
	var pools []*naivePool
	for _, p := range h.pools {
		x := *p
		pools = append(pools, &x)
	}
	return &pools
}

func (p *naivePool) get(key string) (value string, has bool) {
	switch key {
	case "vendor_id":
		return p.Vendor, true
	case "product_id":
		return p.Product, true
	}
	value, has = p.Tags[key]
	return value, has
}

// apply implements apply_requests.
func (h *naiveHardware) apply(pools *[]*naivePool, requests []hardware.PCIRequest, ids []int64) bool {
	for _, r := range requests {
		left := h.filterPools(*pools, r, ids)
		if left == nil {
			return false
		}
		if len(r.Groups) > 0 {
			if h.split || !takeAllocated(left, r) {
				return false
			}
			continue
		}
		n := r.Count
		for _, p := range left {
			if p.Count > n {
				p.Count -= n
				n = 0
			} else {
				n -= p.Count
				*pools = slices.DeleteFunc(*pools, func(x *naivePool) bool { return x == p })
			}
			if n == 0 {
				break
			}
		}
	}
	return true
}

// takeAllocated takes each device from the one pool of its group's provider. It takes nothing and returns false if a
// provider lacks one pool, or has too few devices.
func takeAllocated(pools []*naivePool, r hardware.PCIRequest) bool {
	after := map[*naivePool]int64{}
	for _, id := range r.Providers {
		of := slices.DeleteFunc(slices.Clone(pools), func(p *naivePool) bool { return p.Tags["rp_uuid"] != id || p.Count < 1 })
		if len(of) != 1 {
			return false
		}
		after[of[0]]++
	}
	for p, n := range after {
		if n > p.Count {
			return false
		}
	}
	for p, n := range after {
		p.Count -= n
	}
	return int64(len(r.Providers)) == r.Count
}

func (h *naiveHardware) filterPools(pools []*naivePool, r hardware.PCIRequest, ids []int64) []*naivePool {
	keep := func(ok func(p *naivePool) bool) []*naivePool {
		return slices.DeleteFunc(slices.Clone(pools), func(p *naivePool) bool { return !ok(p) })
	}
	sum := func(of []*naivePool) (n int64) {
		for _, p := range of {
			n += p.Count
		}
		return n
	}
	pools = keep(func(p *naivePool) bool {
		for _, spec := range r.Specs {
			all := true
			for _, want := range spec {
				got, has := p.get(want.Key)
				all = all && (want.None && !has || !want.None && has && strings.EqualFold(got, want.Value))
			}
			if all {
				return true
			}
		}
		return false
	})
	if sum(pools) < r.Count {
		return nil
	}
	if len(ids) > 0 {
		on := func(p *naivePool) bool { return p.Node != nil && slices.Contains(ids, *p.Node) }
		onOrNowhere := func(p *naivePool) bool { return p.Node == nil || on(p) }
		near, legacy := keep(on), keep(onOrNowhere)
		switch {
		case r.Policy == hardware.PCIRequired || sum(near) >= r.Count:
			pools = near
		case r.Policy == hardware.PCISocket:
			pools = keep(func(p *naivePool) bool { return p.Node != nil && slices.Contains(h.sameSockets(ids), *p.Node) })
		case r.Policy != hardware.PCIPreferred || sum(legacy) >= r.Count:
			pools = legacy
		default:
			sort.SliceStable(pools, func(i, j int) bool { return onOrNowhere(pools[i]) && !onOrNowhere(pools[j]) })
		}
	}
	asks := func(ok func(key, value string) bool) bool {
		for _, spec := range r.Specs {
			for _, p := range spec {
				if ok(p.Key, p.Value) {
					return true
				}
			}
		}
		return false
	}
	for _, kind := range []string{"type-PF", "vdpa"} {
		if !asks(func(k, v string) bool { return k == "dev_type" && v == kind }) {
			pools = keep(func(p *naivePool) bool { return p.Tags["dev_type"] != kind })
		}
	}
	remote := func(k, v string) bool { return k == "remote_managed" && strings.EqualFold(v, "true") }
	if !asks(remote) {
		pools = keep(func(p *naivePool) bool { return !remote("remote_managed", p.Tags["remote_managed"]) })
	}
	if sum(pools) < r.Count {
		return nil
	}
	return pools
}

func (h *naiveHardware) sameSockets(ids []int64) (nodes []int64) {
	for _, c := range h.cells {
		if c.Socket == nil {
			return nil
		}
	}
	for _, a := range h.cells {
		for _, b := range h.cells {
			if *a.Socket == *b.Socket && slices.Contains(ids, b.ID) {
				nodes = append(nodes, a.ID)
			}
		}
	}
	return nodes
}

// assign changes cells and pools as _locked_consume_from_request does; false: that raises.
func (h *naiveHardware) assign(n *NovaRequest, cpuRatio, ramRatio float64, limited bool) bool {
	var ids []int64
	if n.NUMA != nil && len(h.cells) == 0 {
		for _, c := range n.NUMA.Cells {
			ids = append(ids, c.ID)
		}
	}
	if n.NUMA != nil && len(h.cells) > 0 {
		guest, err := h.fit(n, cpuRatio, ramRatio, limited)
		if err != nil {
			return false
		}
		after := slices.Clone(h.cells)
		for _, g := range guest {
			ids = append(ids, g.ID)
			for i := range after {
				c := *after[i]
				if c.ID != g.ID {
					continue
				}
				if !c.use(g) {
					return false
				}
				after[i] = &c
			}
		}
		h.cells = after
	}
	if len(n.PCI) == 0 {
		return true
	}
	return h.apply(&h.pools, n.PCI, ids)
}

func (c *naiveCell) use(g *naiveGuest) bool {
	size := g.PageSize
	if size == 0 {
		if len(c.Pages) == 0 {
			return false
		}
		size = c.pageSizes()[0]
	}
	c.Pages = slices.Clone(c.Pages)
	for i := range c.Pages {
		if c.Pages[i].Data.Size == size {
			c.Pages[i].Data.Used += g.MemoryMB * 1024 / size
		}
	}
	c.MemoryUsage += g.MemoryMB
	c.CPUUsage += int64(g.CPUs)
	if g.Policy == "" || g.Policy == hardware.CPUShared {
		return true
	}
	cpus := append(slices.Clone(g.pinned), g.reserved...)
	if g.Threads == hardware.ThreadIsolate {
		var whole []int
		for _, core := range c.Siblings {
			if len(minus(core, cpus)) < len(core) {
				whole = append(whole, core...)
			}
		}
		cpus = whole
	}
	if len(minus(cpus, c.PCPUs)) > 0 || len(minus(cpus, c.Pinned)) < len(cpus) {
		return false
	}
	c.Pinned = append(slices.Clone(c.Pinned), cpus...)
	return true
}

// hardware gives a host's hardware after the picks so far.
func (s *naiveState) hardware(h *Host) *naiveHardware {
	if _, ok := s.hw[h.UUID]; !ok {
		s.hw[h.UUID] = readNaiveHardware(h.Facts)
	}
	return s.hw[h.UUID]
}

func (s *naiveState) takeHardware(h *Host, r *Request) bool {
	hw := s.hardware(h)
	if hw == nil || r.Nova == nil {
		return true
	}
	free := func() (n int64) {
		for _, p := range hw.pools {
			n += p.Count
		}
		return n
	}
	before := free()
	ok := hw.assign(r.Nova, h.View.CPURatio, h.View.RAMRatio, s.limited && !r.Forced())
	h.View.PCIFree -= before - free()
	return ok
}

func (s *naiveState) numaFilter(h *Host, n *NovaRequest) (detail string, pass bool) {
	hw := s.hardware(h)
	if hw == nil || len(hw.cells) == 0 {
		return "", n.NUMA == nil
	}
	if n.NeedThreads {
		threads := false
		for _, c := range hw.cells {
			for _, core := range c.Siblings {
				threads = threads || len(core) > 1
			}
		}
		if !threads {
			return "", false
		}
	}
	if n.NUMA == nil {
		return "", true
	}
	guest, err := hw.fit(n, h.View.CPURatio, h.View.RAMRatio, true)
	if err != nil {
		return Unreadable, false
	}
	return "", guest != nil
}

func (s *naiveState) pciFilter(h *Host, n *NovaRequest) bool {
	if len(n.PCI) == 0 {
		return true
	}
	hw := s.hardware(h)
	return hw != nil && hw.apply(hw.copyPools(), n.PCI, nil)
}

// novaObject makes a versioned object.
func novaObject(data any) map[string]any {
	return map[string]any{"nova_object.name": "X", "nova_object.data": data}
}

// randomHardware draws the texts of a host's topology and pools.
func randomHardware(rng *rand.Rand) (numa, pci string) {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	nodes := rng.IntN(5)
	threads := 1 + rng.IntN(3)
	cpu := 0
	var cells []any
	for id := range nodes {
		var siblings [][]int
		shared, dedicated, pinned := []int{}, []int{}, []int{}
		legacy := rng.IntN(3) == 0
		for range 1 + rng.IntN(4) {
			var core []int
			toShared := rng.IntN(3) == 0
			for range threads {
				core = append(core, cpu)
				if legacy || toShared {
					shared = append(shared, cpu)
				}
				if legacy || !toShared {
					dedicated = append(dedicated, cpu)
					if rng.IntN(3) == 0 {
						pinned = append(pinned, cpu)
					}
				}
				cpu++
			}
			siblings = append(siblings, core)
		}
		if rng.IntN(12) == 0 {
			siblings = [][]int{}
		}
		memory := 1024 * (1 + rng.Int64N(4))
		pages := []any{}
		for i, size := range []int64{4, 2048, 1 << 20} {
			if i == 0 && rng.IntN(10) > 0 || i > 0 && rng.IntN(2) == 0 {
				total := memory * 1024 / size
				pages = append(pages, novaObject(map[string]any{
					"size_kb": size, "total": total, "used": rng.Int64N(total + 1), "reserved": rng.Int64N(2),
				}))
			}
		}
		cell := map[string]any{
			"id": id, "cpuset": shared, "pcpuset": dedicated, "pinned_cpus": pinned, "siblings": siblings, "memory": memory,
			"memory_usage": rng.Int64N(memory+1) / 512 * 512, "cpu_usage": rng.IntN(4), "mempages": pages, "socket": id / 2,
			"network_metadata": novaObject(map[string]any{
				"physnets": some(rng, []string{"a", "b"}, 0.3), "tunneled": rng.IntN(3) == 0,
			}),
		}
		if rng.IntN(8) == 0 {
			cell["socket"] = nil
		}
		cells = append(cells, novaObject(cell))
	}
	if nodes > 0 {
		numa = text(novaObject(map[string]any{"cells": cells}))
	}
	pools := []any{}
	for range rng.IntN(6) {
		tags := map[string]string{}
		for _, of := range [][]string{
			{"dev_type", "type-PCI", "type-VF", "type-PF", "vdpa"}, {"physical_network", "a", "B"}, {"remote_managed", "true", "false"},
		} {
			if rng.IntN(2) == 0 {
				tags[of[0]] = oneOf(rng, of[1:])
			}
		}
		pool := map[string]any{"vendor_id": "8086", "product_id": oneOf(rng, []string{"1", "2"}), "tags": tags, "count": rng.IntN(4), "numa_node": nil}
		if rng.IntN(4) > 0 {
			pool["numa_node"] = rng.IntN(max(1, nodes))
		}
		pools = append(pools, novaObject(pool))
	}
	if rng.IntN(5) > 0 {
		pci = text(novaObject(map[string]any{"objects": pools}))
	}
	return numa, pci
}

// randomGuest draws a guest's topology, devices and networks.
func randomGuest(rng *rand.Rand, n *NovaRequest) {
	if rng.IntN(2) == 0 {
		guest := &hardware.InstanceNUMA{IsolateEmulator: rng.IntN(3) == 0}
		policy := oneOf(rng, []string{"", hardware.CPUShared, hardware.CPUDedicated, hardware.CPUDedicated, hardware.CPUMixed})
		threads := oneOf(rng, []string{"", "", hardware.ThreadPrefer, hardware.ThreadIsolate, hardware.ThreadRequire})
		page := oneOf(rng, []int64{0, 0, hardware.PageSmall, hardware.PageLarge, hardware.PageAny, 4, 2048})
		for id := range 1 + rng.IntN(3) {
			c := hardware.InstanceCell{ID: int64(id), MemoryMB: oneOf(rng, []int64{256, 512, 1024, 2048}), Policy: policy, PageSize: page}
			if policy != hardware.CPUDedicated {
				c.CPUs = rng.IntN(4)
			}
			if policy == hardware.CPUDedicated || policy == hardware.CPUMixed {
				c.Dedicated, c.Threads = rng.IntN(5), threads
			}
			guest.Cells = append(guest.Cells, c)
		}
		n.NUMA = guest
		if rng.IntN(3) == 0 {
			n.Networks = &hardware.NetworkNeeds{Physnets: some(rng, []string{"a", "b"}, 0.5), Tunneled: rng.IntN(2) == 0}
		}
	}
	for rng.IntN(3) == 0 {
		r := hardware.PCIRequest{Count: 1 + rng.Int64N(2), Policy: oneOf(rng, []string{"", hardware.PCIRequired, hardware.PCIPreferred, hardware.PCILegacy, hardware.PCISocket})}
		for range 1 + rng.IntN(2) {
			spec := hardware.PCISpec{{Key: "vendor_id", Value: "8086"}}
			for _, of := range [][]string{
				{"dev_type", "type-PF", "vdpa", "type-VF"}, {"physical_network", "A", "b"}, {"product_id", "1", "2"}, {"remote_managed", "True"},
			} {
				switch rng.IntN(32) {
				case 0:
					spec = append(spec, hardware.PCIProperty{Key: of[0], None: true})
				case 1, 2, 3, 4, 5, 6, 7:
					spec = append(spec, hardware.PCIProperty{Key: of[0], Value: oneOf(rng, of[1:])})
				}
			}
			r.Specs = append(r.Specs, spec)
		}
		n.PCI = append(n.PCI, r)
	}
	n.NeedThreads = rng.IntN(6) == 0
}

// hardwareFacts are reports of hosts with varied NUMA cells and devices.
var hardwareFacts = func() []*Facts {
	rng := rand.New(rand.NewPCG(7, 7))
	list := make([]*Facts, 200)
	for i := range list {
		t := FactTexts{Stats: "{}"}
		t.NUMATopology, t.PCIPools = randomHardware(rng)
		list[i] = ParseFacts(t)
		if list[i].Failed != nil {
			panic(fmt.Sprint(list[i].Failed))
		}
		naiveKind[list[i]] = &naiveKinds[0]
	}
	return list
}()
