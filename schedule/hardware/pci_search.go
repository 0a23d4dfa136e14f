package hardware

import (
	"slices"

	"cellgate/internal/python"
)

// deviceSearch assigns devices to requests (nova/pci/stats.py, PciDeviceStats). It is reusable.
type deviceSearch struct {
	free  []int64 // left in each pool
	pools []int   // pools that suit the request, by index, in the order of use
	rest  []int
	nodes []int64
}

// support reports whether all requests can be met together. ids are the host cells that the guest is on; empty
// without a topology.
func (s *deviceSearch) support(hw *Host, requests []PCIRequest, ids []int64) (bool, *python.Exception) {
	s.free = append(s.free[:0], hw.free...)
	return s.apply(hw, requests, ids)
}

// apply takes the devices from s.free. On failure the devices of the requests before the failed one are already
// taken.
func (s *deviceSearch) apply(hw *Host, requests []PCIRequest, ids []int64) (bool, *python.Exception) {
	for i := range requests {
		r := &requests[i]
		ok, err := s.filter(hw, r, ids)
		if !ok || err != nil {
			return false, err
		}
		n := r.Count
		for _, p := range s.pools {
			took := min(n, s.free[p])
			if len(r.Groups) > 0 {
				took = hw.pools[p].given(r)
			}
			s.free[p] -= took
			if n -= took; n == 0 {
				break
			}
		}
	}
	return true, nil
}

// filter sets s.pools to the pools that together can meet a request; false if they cannot.
func (s *deviceSearch) filter(hw *Host, r *PCIRequest, ids []int64) (bool, *python.Exception) {
	s.pools = s.pools[:0]
	for i := range hw.pools {
		if hw.pools[i].matches(r.Specs) {
			s.pools = append(s.pools, i)
		}
	}
	if s.left() < r.Count {
		return false, nil
	}
	if err := s.near(hw, r, ids); err != nil {
		return false, err
	}
	s.pools = slices.DeleteFunc(s.pools, func(i int) bool { return hw.pools[i].isReservedFrom(r) })
	return s.left() >= r.Count && (len(r.Groups) == 0 || s.allocated(hw, r)), nil
}

// allocated keeps the pools whose devices are of the providers that the request's groups got. It reports whether each
// provider's pool is among them, with enough devices left for what Placement gave (nova/pci/stats.py,
// _filter_pools_based_on_placement_allocation; since 2024.1 also _assert_one_pool_per_rp_uuid). Nova also passes a
// host if a provider's own pool is not among them but another pool has devices to spare; the compute then gives the
// instance fewer devices.
func (s *deviceSearch) allocated(hw *Host, r *PCIRequest) bool {
	if hw.split {
		return false
	}
	found := int64(0)
	s.pools = slices.DeleteFunc(s.pools, func(i int) bool {
		n := hw.pools[i].given(r)
		if n == 0 || n > s.free[i] {
			return true
		}
		found += n
		return false
	})
	return found == r.Count && int64(len(r.Providers)) == r.Count
}

// isReservedFrom reports whether the pool's devices are only for requests that ask for their kind, and this one does
// not.
func (p *pciPool) isReservedFrom(r *PCIRequest) bool {
	return p.kind == physicalFunction && !r.asksFor(physicalFunction) || p.kind == vdpaDevice && !r.asksFor(vdpaDevice) ||
		p.remote && !r.AsksRemoteManaged()
}

func (s *deviceSearch) left() (n int64) {
	for _, i := range s.pools {
		n += s.free[i]
	}
	return n
}

// near keeps the pools whose NUMA nodes suit the request's policy: the nearest ones, if they have enough devices,
// else those that the policy also allows.
func (s *deviceSearch) near(hw *Host, r *PCIRequest, ids []int64) *python.Exception {
	if len(ids) == 0 {
		return nil
	}
	all := append(s.rest[:0], s.pools...)
	s.rest = all
	keep := func(suits func(p *pciPool) bool) {
		s.pools = s.pools[:0]
		for _, i := range all {
			if suits(&hw.pools[i]) {
				s.pools = append(s.pools, i)
			}
		}
	}
	on := func(p *pciPool) bool { return p.hasNode && slices.Contains(ids, p.node) }
	keep(on)
	if r.Policy == PCIRequired || s.left() >= r.Count {
		return nil
	}
	if r.Policy == PCISocket {
		if err := s.sockets(hw.numa, ids); err != nil {
			return err
		}
		keep(func(p *pciPool) bool { return p.hasNode && slices.Contains(s.nodes, p.node) })
		return nil
	}
	// Devices without a known node count as near.
	suits := func(p *pciPool) bool { return on(p) || !p.hasNode }
	keep(suits)
	if r.Policy != PCIPreferred || s.left() >= r.Count {
		return nil
	}
	for _, i := range all {
		if !suits(&hw.pools[i]) {
			s.pools = append(s.pools, i)
		}
	}
	return nil
}

// sockets sets s.nodes to the host cells on the same sockets as the given ones; none if some cell does not report its
// socket.
func (s *deviceSearch) sockets(h *hostNUMA, ids []int64) *python.Exception {
	s.nodes = s.nodes[:0]
	switch {
	case h == nil:
		return python.NewException("AttributeError", "'NoneType' object has no attribute 'cells'")
	case h.noSocket:
		return notLoaded("socket")
	}
	for i := range h.cells {
		if !h.cells[i].hasSocket {
			return nil
		}
	}
	for i := range h.cells {
		c := &h.cells[i]
		if slices.ContainsFunc(h.cells, func(o hostCell) bool { return o.socket == c.socket && slices.Contains(ids, o.id) }) {
			s.nodes = append(s.nodes, c.id)
		}
	}
	return nil
}
