package wire

import (
	"fmt"
	"slices"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// columnsOf encodes candidates in columns (ADR 11); nil for none.
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
			out.Allocations = append(out.Allocations, allocationOf(c.Allocation))
		}
		if c.Limits != nil {
			out.Limited = append(out.Limited, int32(i))
			out.Limits = append(out.Limits, limitsOf(c.Limits))
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

// candidatesFrom decodes candidates; nil for none. Their numbers share the message's
// memory.
func candidatesFrom(in *cellv1.Candidates, weighers int) ([]schedule.Candidate, error) {
	uuids, raw, own := in.GetHostUuids(), in.GetRaw(), in.GetMultipliers()
	n := len(uuids) / len(schedule.ID{})
	for _, c := range []struct {
		column    string
		got, want int
	}{
		{"host_uuids", len(uuids), n * len(schedule.ID{})},
		{"service_hosts", len(in.GetServiceHosts()), n},
		{"nodenames", len(in.GetNodenames()), n},
		{"zone", len(in.GetZone()), n},
		{"raw", len(raw), n * weighers},
		{"weights", len(in.GetWeights()), n},
		{"ties", len(in.GetTies()), n},
		{"multipliers", len(own), len(in.GetOwn()) * weighers},
		{"allocations", len(in.GetAllocations()), len(in.GetAllocated())},
		{"limits", len(in.GetLimits()), len(in.GetLimited())},
	} {
		if c.got != c.want {
			return nil, fmt.Errorf("%s has %d, must have %d for %d hosts", c.column, c.got, c.want, n)
		}
	}
	if n == 0 {
		return nil, nil
	}
	out := make([]schedule.Candidate, n)
	for i := range out {
		zone := int(in.GetZone()[i])
		if zone < 0 || zone >= len(in.GetZones()) {
			return nil, fmt.Errorf("zone[%d] is %d, there are %d zones", i, zone, len(in.GetZones()))
		}
		out[i] = schedule.Candidate{
			Host:        schedule.ID(uuids[i*len(schedule.ID{}) : (i+1)*len(schedule.ID{})]),
			ServiceHost: in.GetServiceHosts()[i], NodeName: in.GetNodenames()[i], Zone: in.GetZones()[zone],
			Raw: raw[i*weighers : (i+1)*weighers : (i+1)*weighers], Weight: in.GetWeights()[i], Tie: in.GetTies()[i],
		}
		if out[i].NodeName == "" {
			out[i].NodeName = out[i].ServiceHost
		}
	}
	if err := ascending("own", in.GetOwn(), n); err != nil {
		return nil, err
	}
	for i, k := range in.GetOwn() {
		out[k].Multipliers = own[i*weighers : (i+1)*weighers : (i+1)*weighers]
	}
	if err := ascending("allocated", in.GetAllocated(), n); err != nil {
		return nil, err
	}
	for i, k := range in.GetAllocated() {
		a, err := allocationFrom(in.GetAllocations()[i])
		if err != nil {
			return nil, fmt.Errorf("allocations[%d].%w", i, err)
		}
		out[k].Allocation = a
	}
	if err := ascending("limited", in.GetLimited(), n); err != nil {
		return nil, err
	}
	for i, k := range in.GetLimited() {
		out[k].Limits = limitsFrom(in.GetLimits()[i])
	}
	return out, nil
}

// ascending checks a column of indices of n hosts.
func ascending(column string, indices []int32, n int) error {
	before := -1
	for i, k := range indices {
		if int(k) <= before || int(k) >= n {
			return fmt.Errorf("%s[%d] is %d, after %d and of %d hosts", column, i, k, before, n)
		}
		before = int(k)
	}
	return nil
}

func allocationOf(a *schedule.Allocation) *cellv1.HostAllocation {
	out := &cellv1.HostAllocation{Allocations: EncodeAmounts(a.Amounts)}
	for _, m := range a.Mappings {
		out.Mappings = append(out.Mappings, &cellv1.GroupProviders{Suffix: m.Suffix, ProviderUuids: IDTexts(m.Providers)})
	}
	return out
}

// EncodeAmounts encodes the amounts of an allocation; nil for none.
func EncodeAmounts(amounts []schedule.ProviderAmount) (out []*cellgatev1.Allocation) {
	for _, x := range amounts {
		out = append(out, &cellgatev1.Allocation{ProviderUuid: x.Provider.String(), ResourceClass: x.Class, Amount: int32(x.N)})
	}
	return out
}

func allocationFrom(in *cellv1.HostAllocation) (*schedule.Allocation, error) {
	out := &schedule.Allocation{}
	for i, x := range in.GetAllocations() {
		id, err := schedule.ParseID(x.GetProviderUuid())
		switch {
		case err != nil:
			return nil, fmt.Errorf("allocations[%d].provider_uuid: %w", i, err)
		case x.GetAmount() < 1:
			return nil, fmt.Errorf("allocations[%d].amount is %d", i, x.GetAmount())
		}
		out.Amounts = append(out.Amounts, schedule.ProviderAmount{Provider: id, Class: x.GetResourceClass(), N: int64(x.GetAmount())})
	}
	var err error
	out.Mappings, err = MappingsFrom(in.GetMappings())
	return out, err
}

// MappingsFrom decodes the providers of request groups.
func MappingsFrom(in []*cellv1.GroupProviders) ([]schedule.Mapping, error) {
	var out []schedule.Mapping
	for i, m := range in {
		group := schedule.Mapping{Suffix: m.GetSuffix()}
		for k, text := range m.GetProviderUuids() {
			id, err := schedule.ParseID(text)
			if err != nil {
				return nil, fmt.Errorf("mappings[%d].provider_uuids[%d]: %w", i, k, err)
			}
			group.Providers = append(group.Providers, id)
		}
		out = append(out, group)
	}
	return out, nil
}

func limitsOf(l *schedule.Limits) *cellv1.HostLimits {
	out := &cellv1.HostLimits{Vcpus: l.VCPUs, MemoryMb: l.MemoryMB, DiskGb: l.DiskGB}
	if l.NUMA != nil {
		out.NumaCpuAllocationRatio, out.NumaRamAllocationRatio = &l.NUMA.CPURatio, &l.NUMA.RAMRatio
	}
	return out
}

func limitsFrom(in *cellv1.HostLimits) *schedule.Limits {
	out := &schedule.Limits{VCPUs: in.Vcpus, MemoryMB: in.MemoryMb, DiskGB: in.DiskGb}
	if in.NumaCpuAllocationRatio != nil {
		out.NUMA = &schedule.NUMALimits{CPURatio: in.GetNumaCpuAllocationRatio(), RAMRatio: in.GetNumaRamAllocationRatio()}
	}
	return out
}
