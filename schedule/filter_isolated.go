package schedule

import "slices"

// IsolatedHostsFilter keeps isolated images on isolated hosts and, if the option is set, other images off them
// (filters/isolated_hosts_filter.py).
const IsolatedHostsFilter = "IsolatedHostsFilter"

func (s *scan) isolatedHostsFilter() {
	o := s.options
	hosts := s.t.onServices(o.IsolatedHosts, false)
	on := func(at int, _ *chunk, _ uint64) uint64 { return hosts.in(at) }
	off := func(at int, _ *chunk, _ uint64) uint64 { return ^hosts.in(at) }
	image := s.nova.Image
	isolated := image != nil && image.ID != "" && slices.Contains(o.IsolatedImages, image.ID)
	switch {
	case len(o.IsolatedImages) == 0:
		if o.RestrictIsolated {
			s.check(IsolatedHostsFilter, "", off)
		}
	case isolated:
		s.check(IsolatedHostsFilter, "", on)
	case o.RestrictIsolated:
		s.check(IsolatedHostsFilter, "", off)
	}
}
