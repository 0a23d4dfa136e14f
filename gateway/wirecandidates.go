package gateway

import (
	"errors"
	"fmt"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// boundsFrom reads bounds, the least and the greatest by turns; nil for none.
func boundsFrom(in []float64) ([]schedule.Bounds, error) {
	if len(in)%2 != 0 {
		return nil, errors.New("are not pairs")
	}
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]schedule.Bounds, len(in)/2)
	for i := range out {
		out[i] = schedule.Bounds{Min: in[2*i], Max: in[2*i+1]}
	}
	return out, nil
}

// candidatesFrom reads candidates, which are in columns; nil for none. The numbers
// stay where the message has them.
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
	for i, m := range in.GetMappings() {
		group := schedule.Mapping{Suffix: m.GetSuffix()}
		for k, text := range m.GetProviderUuids() {
			id, err := schedule.ParseID(text)
			if err != nil {
				return nil, fmt.Errorf("mappings[%d].provider_uuids[%d]: %w", i, k, err)
			}
			group.Providers = append(group.Providers, id)
		}
		out.Mappings = append(out.Mappings, group)
	}
	return out, nil
}

func limitsFrom(in *cellv1.HostLimits) *schedule.Limits {
	out := &schedule.Limits{VCPUs: in.Vcpus, MemoryMB: in.MemoryMb, DiskGB: in.DiskGb}
	if in.NumaCpuAllocationRatio != nil {
		out.NUMA = &schedule.NUMALimits{CPURatio: in.GetNumaCpuAllocationRatio(), RAMRatio: in.GetNumaRamAllocationRatio()}
	}
	return out
}
