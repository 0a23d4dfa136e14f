package cell

import (
	"maps"
	"slices"

	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// facts reads what a host says of itself beyond amounts. What Nova could not read
// is refused here, so that no request meets it.
func (r *reader) facts(f *agentv1.Facts) *shard.Facts {
	if f == nil {
		return nil
	}
	out := &shard.Facts{
		CPUInfo: f.GetCpuInfo(), SupportedInstances: f.GetSupportedInstances(), Stats: f.GetStats(),
		Metrics: f.GetMetrics(), NUMATopology: f.GetNumaTopology(), PCIStats: f.GetPciStats(),
	}
	failed := factsOf(&shard.Host{Facts: out}).Failed
	for _, field := range slices.Sorted(maps.Keys(failed)) {
		r.Problem("facts."+field, "cannot be read: %s", failed[field])
	}
	return out
}

// factsOf is what a host says of itself, read.
func factsOf(h *shard.Host) *schedule.Facts {
	t := schedule.FactTexts{HypervisorType: h.HypervisorType, HypervisorHostname: h.NodeName, HostIP: h.HostIP}
	if f := h.Facts; f != nil {
		t.CPUInfo, t.SupportedInstances, t.Stats, t.Metrics = f.CPUInfo, f.SupportedInstances, f.Stats, f.Metrics
		t.NUMATopology, t.PCIPools = f.NUMATopology, f.PCIStats
	}
	return schedule.ParseFacts(t)
}
