package wire

import (
	"fmt"
	"math"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule/hardware"
)

// maxGuestCells and maxGuestCPUs bound a guest's NUMA topology.
const (
	maxGuestCells = 16
	maxGuestCPUs  = 4096
)

// NUMAOf encodes a guest's NUMA topology; nil for none.
func NUMAOf(n *hardware.InstanceNUMA) *cellv1.GuestNuma {
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

// NUMA decodes a guest's NUMA topology; nil for none.
func (r *Fields) NUMA(in *cellv1.GuestNuma) *hardware.InstanceNUMA {
	if in == nil {
		return nil
	}
	const path = "placement.nova.numa.cells"
	if n := len(in.GetCells()); n < 1 || n > maxGuestCells {
		r.Problem(path, "must be 1 to %d", maxGuestCells)
		return nil
	}
	out := &hardware.InstanceNUMA{IsolateEmulator: in.GetIsolateEmulator(), Release: in.GetRelease()}
	for i, c := range in.GetCells() {
		cpus, memory, page := max(c.GetCpus(), c.GetDedicated()), c.GetMemoryMb(), c.GetPageSize()
		if min(c.GetCpus(), c.GetDedicated(), memory) < 0 || cpus > maxGuestCPUs || memory > math.MaxInt32 ||
			page < hardware.PageAny || page > math.MaxInt32 {
			r.Problem(fmt.Sprintf("%s[%d]", path, i), "has amounts out of range")
		}
		out.Cells = append(out.Cells, hardware.InstanceCell{
			ID: c.GetId(), CPUs: int(c.GetCpus()), Dedicated: int(c.GetDedicated()), MemoryMB: memory,
			PageSize: page, Policy: c.GetCpuPolicy(), Threads: c.GetThreadPolicy(),
		})
	}
	return out
}

// PCIOf encodes requests for PCI devices.
func PCIOf(in []hardware.PCIRequest) []*cellv1.PciRequest {
	var out []*cellv1.PciRequest
	for i := range in {
		r := &cellv1.PciRequest{Count: in[i].Count, NumaPolicy: in[i].Policy, Groups: in[i].Groups, ProviderUuids: in[i].Providers}
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

// PCI decodes requests for PCI devices.
func (r *Fields) PCI(in []*cellv1.PciRequest) []hardware.PCIRequest {
	var out []hardware.PCIRequest
	for i, x := range in {
		if x.GetCount() < 1 || x.GetCount() > math.MaxInt32 {
			r.Problem(fmt.Sprintf("placement.nova.pci_requests[%d].count", i), "must be 1 to %d, is %d", math.MaxInt32, x.GetCount())
		}
		req := hardware.PCIRequest{Count: x.GetCount(), Policy: x.GetNumaPolicy(), Groups: x.GetGroups(), Providers: x.GetProviderUuids()}
		for _, s := range x.GetSpecs() {
			spec := hardware.PCISpec{}
			for _, p := range s.GetProperties() {
				spec = append(spec, hardware.PCIProperty{Key: p.GetKey(), Value: p.GetValue(), None: p.GetNone()})
			}
			req.Specs = append(req.Specs, spec)
		}
		out = append(out, req)
	}
	return out
}

// NetworksOf encodes the networks near which a guest's NUMA cells should be; nil for none.
func NetworksOf(n *hardware.NetworkNeeds) *cellv1.GuestNetworks {
	if n == nil {
		return nil
	}
	return &cellv1.GuestNetworks{Physnets: n.Physnets, Tunneled: n.Tunneled}
}

func networksFrom(in *cellv1.GuestNetworks) *hardware.NetworkNeeds {
	if in == nil {
		return nil
	}
	return &hardware.NetworkNeeds{Physnets: in.GetPhysnets(), Tunneled: in.GetTunneled()}
}

// Guest decodes the hardware that an instance takes of its host.
func (r *Fields) Guest(in *cellv1.Guest) hardware.Guest {
	return hardware.Guest{NUMA: r.NUMA(in.GetNuma()), PCI: r.PCI(in.GetPciRequests()), Networks: networksFrom(in.GetNetworks())}
}
