package hardware

import (
	"slices"

	"cellgate/internal/python"
)

// Search finds out whether guests fit on hosts. The zero value is ready. A Search may be used again, not concurrently.
//
// It tries host cells in the order in which Nova does (nova/virt/hardware.py, numa_fit_instance_to_host). The order, and
// what Nova changes in the guest's cells meanwhile, decide which cells it finds, and sometimes whether it finds any.
type Search struct {
	// Stop, unless nil, is called now and then by a search that takes long. If it gives true, the search ends with
	// Stopped.
	Stop func() bool

	need   *InstanceNUMA
	ratios Ratios
	// limited: overcommit and networks count.
	limited bool
	pci     []PCIRequest
	nets    *NetworkNeeds

	guest []guestCell
	order []int // host cells by index, best first
	at    []int // the current permutation: indexes into order
	used  uint64
	ids   []int64 // of the host cells chosen
	// Pairs of ids, of a host's and a guest's cell, that were already tried.
	fit, unfit []cellPair
	// refused are sets of chosen host cells that lack devices or networks.
	refused map[uint64]bool
	devices deviceSearch
}

type cellPair struct{ host, guest int64 }

// maxPermutations bounds the search on one host. Nova would search for minutes.
const maxPermutations = 50_000

// stopEveryOrders is the number of permutations between calls of stop.
const stopEveryOrders = 1024

// Stopped is the exception of a search that its Stop ended.
var Stopped = python.NewException("TimeoutError", "the query was stopped")

// CellsFit reports whether the guest's NUMA cells, which it must have, fit on the host's, with their CPUs, pages, devices
// and networks. Nothing fits on a host without cells.
func (s *Search) CellsFit(hw *Host, g *Guest, ratios Ratios) (bool, *python.Exception) {
	if !hw.HasCells() {
		return false, nil
	}
	return s.find(hw, g, &ratios)
}

// DevicesFit reports whether the host has the devices of all requests together, wherever they are.
func (s *Search) DevicesFit(hw *Host, g *Guest) (bool, *python.Exception) {
	return s.devices.support(hw, g.PCI, nil)
}

// find is CellsFit on a host with cells; without ratios, neither overcommit nor networks count. s.guest then has the
// host cells.
func (s *Search) find(hw *Host, g *Guest, ratios *Ratios) (bool, *python.Exception) {
	s.need, s.pci, s.nets = g.NUMA, g.PCI, nil
	if s.limited = ratios != nil; s.limited {
		s.ratios, s.nets = *ratios, g.Networks
	}
	h, n := hw.numa, len(s.need.Cells)
	if len(h.cells) < n {
		return false, nil
	}
	if h.lacks != "" {
		return false, notLoaded(h.lacks)
	}
	if err := s.begin(hw); err != nil {
		return false, err
	}
	shared := 0 // leading places that the permutation shares with the one before
	for tried := range maxPermutations {
		if tried%stopEveryOrders == 0 && s.Stop != nil && s.Stop() {
			return false, Stopped
		}
		fail, err := s.try(h)
		if err != nil {
			return false, err
		}
		step := n - 1
		switch {
		case fail == n:
			ok, err := s.supported(hw)
			if ok || err != nil {
				return ok, err
			}
			if n == len(h.cells) {
				return false, nil // Every order is the same set of cells.
			}
		case fail < shared:
			// The first failure may have changed ids, so the next permutation may fail elsewhere. After two failures
			// the ids no longer change: every permutation with the same beginning fails there.
			step = fail
		}
		if shared = s.next(step); shared < 0 {
			return false, nil
		}
	}
	return false, python.NewException("RuntimeError", "too many ways to place the NUMA cells")
}

// begin prepares the search for a host.
func (s *Search) begin(hw *Host) *python.Exception {
	h, cells := hw.numa, s.need.Cells
	s.guest, s.order, s.at, s.used = s.guest[:0], s.order[:0], s.at[:0], 0
	s.fit, s.unfit = s.fit[:0], s.unfit[:0]
	clear(s.refused)
	for i := range cells {
		s.guest = append(s.guest, guestCell{InstanceCell: &cells[i], id: cells[i].ID, pageSize: cells[i].PageSize, packed: -1, release: s.need.Release})
		s.at = append(s.at, i)
		s.used |= 1 << i
	}
	for i := range h.cells {
		s.order = append(s.order, i)
	}
	if len(h.cells) == len(cells) {
		return nil
	}
	// Each sort is stable, so the last sort has the highest priority.
	s.sort(func(i int) int64 { return h.cells[i].memoryUsed - h.cells[i].memory })
	if p := cells[0].Policy; p == "" || p == CPUShared {
		s.sort(func(i int) int64 { return h.cells[i].cpuUsage })
	} else {
		if h.noCPUs {
			return notLoaded("pcpuset")
		}
		s.sort(func(i int) int64 { return -int64(h.cells[i].freeCPUs) })
	}
	if len(hw.pools) > 0 {
		sign := int64(1)
		if len(s.pci) > 0 {
			sign = -1
		}
		s.sort(func(i int) int64 { return sign * hw.freeAt(h.cells[i].id) })
	}
	return nil
}

// sort sorts the host cells by a key, ascending and stable.
func (s *Search) sort(key func(cell int) int64) {
	for i := 1; i < len(s.order); i++ {
		for k := i; k > 0 && key(s.order[k]) < key(s.order[k-1]); k-- {
			s.order[k], s.order[k-1] = s.order[k-1], s.order[k]
		}
	}
}

// try puts the guest's cells on the host cells of the permutation, one after the other. It gives the place of the
// first that does not fit, or their number if all fit.
func (s *Search) try(h *hostNUMA) (fail int, err *python.Exception) {
	var ratios *Ratios
	if s.limited {
		ratios = &s.ratios
	}
	for k := range s.guest {
		g, at := &s.guest[k], s.order[s.at[k]]
		pair := cellPair{h.cells[at].id, g.id}
		if slices.Contains(s.unfit, pair) {
			return k, nil
		}
		if slices.Contains(s.fit, pair) {
			g.id = pair.host
			continue
		}
		overhead := 0
		if s.need.IsolateEmulator && k == 0 {
			overhead = 1
		}
		ok, err := g.fits(h, at, ratios, overhead)
		if err != nil {
			return k, err
		}
		if !ok {
			s.unfit = append(s.unfit, pair)
			return k, nil
		}
		s.fit = append(s.fit, pair)
	}
	return len(s.guest), nil
}

// next advances to the next permutation, in lexicographic order, that differs at place k or before. It gives the
// first place that changed; -1 if there is none.
func (s *Search) next(k int) int {
	for i := k + 1; i < len(s.at); i++ {
		s.used &^= 1 << s.at[i]
	}
	for ; k >= 0; k-- {
		s.used &^= 1 << s.at[k]
		for x := s.at[k] + 1; x < len(s.order); x++ {
			if s.used>>x&1 != 0 {
				continue
			}
			s.put(k, x)
			least := 0
			for i := k + 1; i < len(s.at); i++ {
				for s.used>>least&1 != 0 {
					least++
				}
				s.put(i, least)
			}
			return k
		}
	}
	return -1
}

func (s *Search) put(k, x int) {
	s.at[k] = x
	s.used |= 1 << x
}

// supported reports whether the chosen host cells have the devices and networks near. The order of the cells does not
// matter.
func (s *Search) supported(hw *Host) (bool, *python.Exception) {
	if len(s.pci) == 0 && s.nets == nil {
		return true, nil
	}
	if s.refused[s.used] {
		return false, nil
	}
	s.ids = s.ids[:0]
	for k := range s.guest {
		s.ids = append(s.ids, s.guest[k].id)
	}
	ok, err := s.devices.support(hw, s.pci, s.ids)
	if ok && err == nil {
		ok = s.nets.near(hw.numa, s)
	}
	if !ok && err == nil {
		if s.refused == nil {
			s.refused = map[uint64]bool{}
		}
		s.refused[s.used] = true
	}
	return ok, err
}

// near reports whether the chosen host cells are near the requested networks. A network that no cell of the host is
// near does not count (_numa_cells_support_network_metadata).
func (n *NetworkNeeds) near(h *hostNUMA, s *Search) bool {
	if n == nil {
		return true
	}
	var chosen uint64
	for _, x := range s.at {
		chosen |= 1 << s.order[x]
	}
	// has reports whether near is true of some chosen cell, or of no cell at all.
	has := func(near func(c *hostCell) bool) bool {
		some := false
		for i := range h.cells {
			if near(&h.cells[i]) {
				if chosen>>i&1 != 0 {
					return true
				}
				some = true
			}
		}
		return !some
	}
	for _, net := range n.Physnets {
		if !has(func(c *hostCell) bool { return slices.Contains(c.physnets, net) }) {
			return false
		}
	}
	return !n.Tunneled || has(func(c *hostCell) bool { return c.tunneled })
}
