package proposing

import (
	"slices"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// proposalOf is the core's answer on the wire, without version and claims; in columns
// for a gateway that asks for them.
func proposalOf(p *schedule.Proposal, columns bool) *cellv1.Proposal {
	out := &cellv1.Proposal{
		Hosts:      int32(p.Hosts),
		Passed:     int32(p.Passed),
		Rejects:    make([]*cellv1.Reject, len(p.Rejects)),
		GroupHosts: make([]*cellv1.GroupHost, len(p.GroupHosts)),
	}
	if columns {
		out.BoundsFlat, out.Columns, out.MultipliersFlat = boundsFlat(p.Bounds), columnsOf(p.Candidates), boundsFlat(p.Multipliers)
	} else {
		out.Bounds, out.Candidates, out.Multipliers = boundsTo(p.Bounds), candidatesTo(p.Candidates), boundsTo(p.Multipliers)
	}
	for i, r := range p.Rejects {
		out.Rejects[i] = &cellv1.Reject{
			Filter: r.Filter, Detail: r.Detail, Hosts: int32(r.Hosts),
			Example: r.Example, ExceptionClass: r.Class, ExceptionMessage: r.Message,
		}
	}
	for i, g := range p.GroupHosts {
		out.GroupHosts[i] = &cellv1.GroupHost{
			HostUuid: g.Host.String(), ServiceHost: g.ServiceHost, Members: int32(g.Members),
		}
	}
	for _, w := range p.Warnings {
		out.Warnings = append(out.Warnings, &cellv1.Warning{
			Key: w.Key, Hosts: int32(w.Hosts), Example: w.Example, ExceptionClass: w.Class, ExceptionMessage: w.Message,
		})
	}
	if r := p.Raised; r != nil {
		out.Raised = &cellv1.Raised{Stage: r.Stage, Filter: r.Filter, Host: r.Host, Class: r.Class, Message: r.Message}
	}
	return out
}

// boundsTo and candidatesTo write the form of a message each, for gateways that do
// not know of columns.
func boundsTo(in []schedule.Bounds) []*cellv1.Bounds {
	var out []*cellv1.Bounds
	for _, b := range in {
		out = append(out, &cellv1.Bounds{Min: b.Min, Max: b.Max})
	}
	return out
}

func candidatesTo(in []schedule.Candidate) []*cellv1.Candidate {
	out := make([]*cellv1.Candidate, len(in))
	for i := range in {
		c := &in[i]
		out[i] = &cellv1.Candidate{
			HostUuid:         c.Host.String(),
			ServiceHost:      c.ServiceHost,
			Nodename:         c.NodeName,
			AvailabilityZone: c.Zone,
			Raw:              c.Raw,
			Weight:           c.Weight,
			Tie:              c.Tie,
			Multipliers:      c.Multipliers,
		}
	}
	return out
}

// boundsFlat gives the least and the greatest by turns.
func boundsFlat(in []schedule.Bounds) []float64 {
	if len(in) == 0 {
		return nil
	}
	out := make([]float64, 0, 2*len(in))
	for _, b := range in {
		out = append(out, b.Min, b.Max)
	}
	return out
}

// columnsOf gives candidates in columns; nil for none.
func columnsOf(in []schedule.Candidate) *cellv1.Candidates {
	n := len(in)
	if n == 0 {
		return nil
	}
	texts := make([]string, 2*n)
	weighers := len(in[0].Raw)
	numbers := make([]float64, 0, n*(weighers+1))
	out := &cellv1.Candidates{
		HostUuids: make([]byte, 0, len(schedule.ID{})*n), ServiceHosts: texts[:n:n], Nodenames: texts[n:],
		Zone: make([]int32, n), Ties: make([]uint64, n),
	}
	for i := range in {
		c := &in[i]
		out.HostUuids = append(out.HostUuids, c.Host[:]...)
		out.ServiceHosts[i], out.Ties[i] = c.ServiceHost, c.Tie
		if c.NodeName != c.ServiceHost {
			out.Nodenames[i] = c.NodeName
		}
		zone := slices.Index(out.Zones, c.Zone)
		if zone < 0 {
			zone = len(out.Zones)
			out.Zones = append(out.Zones, c.Zone)
		}
		out.Zone[i] = int32(zone)
		numbers = append(numbers, c.Raw...)
		if c.Allocation != nil {
			out.Allocated = append(out.Allocated, int32(i))
			out.Allocations = append(out.Allocations, allocationTo(c.Allocation))
		}
		if c.Limits != nil {
			out.Limited = append(out.Limited, int32(i))
			out.Limits = append(out.Limits, limitsTo(c.Limits))
		}
		if c.Multipliers != nil {
			out.Own = append(out.Own, int32(i))
			out.Multipliers = append(out.Multipliers, c.Multipliers...)
		}
	}
	out.Raw = numbers[:len(numbers):len(numbers)]
	for i := range in {
		numbers = append(numbers, in[i].Weight)
	}
	out.Weights = numbers[len(out.Raw):]
	return out
}

func allocationTo(a *schedule.Allocation) *cellv1.HostAllocation {
	out := &cellv1.HostAllocation{}
	for _, x := range a.Amounts {
		out.Allocations = append(out.Allocations, &cellgatev1.Allocation{
			ProviderUuid: x.Provider.String(), ResourceClass: x.Class, Amount: int32(x.N),
		})
	}
	for _, m := range a.Mappings {
		group := &cellv1.GroupProviders{Suffix: m.Suffix}
		for _, p := range m.Providers {
			group.ProviderUuids = append(group.ProviderUuids, p.String())
		}
		out.Mappings = append(out.Mappings, group)
	}
	return out
}

func limitsTo(l *schedule.Limits) *cellv1.HostLimits {
	out := &cellv1.HostLimits{Vcpus: l.VCPUs, MemoryMb: l.MemoryMB, DiskGb: l.DiskGB}
	if l.NUMA != nil {
		out.NumaCpuAllocationRatio, out.NumaRamAllocationRatio = &l.NUMA.CPURatio, &l.NUMA.RAMRatio
	}
	return out
}
