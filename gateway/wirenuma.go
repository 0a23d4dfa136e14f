package gateway

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// numaOf gives the wire form of a guest's NUMA topology; nil for none.
func numaOf(n *schedule.InstanceNUMA) *cellv1.GuestNuma {
	if n == nil {
		return nil
	}
	out := &cellv1.GuestNuma{IsolateEmulator: n.IsolateEmulator, Release: n.Release}
	for i := range n.Cells {
		c := &n.Cells[i]
		out.Cells = append(out.Cells, &cellv1.GuestCell{
			Id: c.ID, Cpus: int64(c.CPUs), Dedicated: int64(c.Dedicated), MemoryMb: c.MemoryMB,
			PageSize: c.PageSize, CpuPolicy: c.Policy, ThreadPolicy: c.Threads,
		})
	}
	return out
}

func pciOf(in []schedule.PCIRequest) []*cellv1.PciRequest {
	var out []*cellv1.PciRequest
	for i := range in {
		r := &cellv1.PciRequest{Count: in[i].Count, NumaPolicy: in[i].Policy}
		for _, spec := range in[i].Specs {
			s := &cellv1.PciSpec{}
			for _, p := range spec {
				s.Properties = append(s.Properties, &cellv1.PciProperty{Key: p.Key, Value: p.Value, None: p.None})
			}
			r.Specs = append(r.Specs, s)
		}
		out = append(out, r)
	}
	return out
}

func networksOf(n *schedule.NetworkNeeds) *cellv1.GuestNetworks {
	if n == nil {
		return nil
	}
	return &cellv1.GuestNetworks{Physnets: n.Physnets, Tunneled: n.Tunneled}
}
