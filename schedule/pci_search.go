package schedule

import "slices"

// pciSearch gives devices to requests (nova/pci/stats.py, PciDeviceStats). It may
// be used again.
type pciSearch struct {
	free  []int64 // left in each pool
	pools []int   // that will do, by index, in the order they are taken from
	rest  []int
	nodes []int64
}

// support reports whether all requests can be met together. ids are the host
// cells that the guest is on; none for a guest without a topology.
func (s *pciSearch) support(hw *hardware, requests []PCIRequest, ids []int64) (bool, *pyError) {
	s.free = append(s.free[:0], hw.free...)
	return s.apply(hw, requests, ids)
}

// apply takes the devices from s.free. When it fails it has taken those of the
// requests before.
func (s *pciSearch) apply(hw *hardware, requests []PCIRequest, ids []int64) (bool, *pyError) {
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

// filter sets s.pools to those that can meet a request together; false when they
// cannot.
func (s *pciSearch) filter(hw *hardware, r *PCIRequest, ids []int64) (bool, *pyError) {
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
	s.pools = slices.DeleteFunc(s.pools, func(i int) bool { return hw.pools[i].spared(r) })
	return s.left() >= r.Count && (len(r.Groups) == 0 || s.allocated(hw, r)), nil
}

// allocated keeps the pools whose devices are of the providers that the request's groups got. It reports whether each
// provider's pool is among them, with as many devices left as Placement gave (nova/pci/stats.py,
// _filter_pools_based_on_placement_allocation; since 2024.1 also _assert_one_pool_per_rp_uuid). Nova also passes a host on
// which a pool has devices to spare for a provider whose own pool is not among them; its compute then gives the instance
// fewer devices.
func (s *pciSearch) allocated(hw *hardware, r *PCIRequest) bool {
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

// spared: the devices are only for those that ask for them by kind.
func (p *pciPool) spared(r *PCIRequest) bool {
	return p.kind == physicalFunction && !r.asksFor(physicalFunction) || p.kind == vdpaDevice && !r.asksFor(vdpaDevice) ||
		p.remote && !r.AsksRemoteManaged()
}

func (s *pciSearch) left() (n int64) {
	for _, i := range s.pools {
		n += s.free[i]
	}
	return n
}

// near keeps the pools whose place suits the request's policy; the strictest
// that has enough devices counts.
func (s *pciSearch) near(hw *hardware, r *PCIRequest, ids []int64) *pyError {
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
	// Devices whose place nobody knows count as near.
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

// sockets sets s.nodes to the host cells on the sockets of those given; none when
// some cell does not say on which it is.
func (s *pciSearch) sockets(h *hostNUMA, ids []int64) *pyError {
	s.nodes = s.nodes[:0]
	switch {
	case h == nil:
		return &pyError{"AttributeError", "'NoneType' object has no attribute 'cells'"}
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
