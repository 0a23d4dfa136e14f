package rowcodec

import (
	storagev1 "cellgate/proto/cellgate/storage/v1"
	"cellgate/shard"
)

func rowHost(m *storagev1.Host) *shard.Host {
	h := &shard.Host{
		UUID: m.Uuid, ServiceHost: m.ServiceHost, NodeName: m.NodeName,
		Disabled: m.Disabled, DisabledReason: m.DisabledReason,
		IOWorkload: m.IoWorkload, FailedBuilds: m.FailedBuilds,
		HypervisorType: m.HypervisorType, HypervisorVersion: m.HypervisorVersion,
		HostIP: m.HostIp, AgentVersion: m.AgentVersion,
		BootID: m.BootId, StateVersion: m.StateVersion, Generation: m.Generation, Imported: m.Imported,
		InstancesUnknown: m.InstancesUnknown, PlacementTree: m.PlacementTree,
	}
	if f := m.Facts; f != nil {
		h.Facts = &shard.Facts{
			CPUInfo: f.CpuInfo, SupportedInstances: f.SupportedInstances, Stats: f.Stats, Metrics: f.Metrics,
			NUMATopology: f.NumaTopology, PCIStats: f.PciStats, Namespaces: f.Namespaces,
		}
	}
	for _, p := range m.Providers {
		row := shard.Provider{UUID: p.Uuid, ParentUUID: p.ParentUuid, Name: p.Name, Traits: p.Traits, Generation: p.Generation, Aggregates: p.Aggregates}
		for _, i := range p.Inventories {
			row.Inventories = append(row.Inventories, shard.Inventory{
				ResourceClass: i.ResourceClass, Total: i.Total, Reserved: i.Reserved,
				MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize, AllocationRatio: i.AllocationRatio, Unaccounted: i.Unaccounted, Filled: i.Filled,
			})
		}
		h.Providers = append(h.Providers, row)
	}
	h.Aggregates = rowAggregates(m.Aggregates)
	if n := m.Nova; n != nil {
		h.Nova = &shard.NovaHost{
			Aggregates: rowAggregates(n.Aggregates), Ratios: n.Ratios,
			ReportedAggregates: rowAggregates(n.ReportedAggregates), ReportedRatios: n.ReportedRatios, Left: n.Left,
			NUMATopology: n.NumaTopology, PCIStats: n.PciStats, Version: n.Version,
		}
	}
	return h
}

func rowAggregates(in []*storagev1.Aggregate) (out []shard.Aggregate) {
	for _, a := range in {
		out = append(out, shard.Aggregate{UUID: a.Uuid, Name: a.Name, Metadata: a.Metadata})
	}
	return out
}

func hostRow(h *shard.Host) *storagev1.Host {
	m := &storagev1.Host{
		Uuid: h.UUID, ServiceHost: h.ServiceHost, NodeName: h.NodeName,
		Disabled: h.Disabled, DisabledReason: h.DisabledReason,
		IoWorkload: h.IOWorkload, FailedBuilds: h.FailedBuilds,
		HypervisorType: h.HypervisorType, HypervisorVersion: h.HypervisorVersion,
		HostIp: h.HostIP, AgentVersion: h.AgentVersion,
		BootId: h.BootID, StateVersion: h.StateVersion, Generation: h.Generation, Imported: h.Imported,
		InstancesUnknown: h.InstancesUnknown, PlacementTree: h.PlacementTree,
	}
	if f := h.Facts; f != nil {
		m.Facts = &storagev1.Facts{
			CpuInfo: f.CPUInfo, SupportedInstances: f.SupportedInstances, Stats: f.Stats, Metrics: f.Metrics,
			NumaTopology: f.NUMATopology, PciStats: f.PCIStats, Namespaces: f.Namespaces,
		}
	}
	for _, p := range h.Providers {
		row := &storagev1.Provider{Uuid: p.UUID, ParentUuid: p.ParentUUID, Name: p.Name, Traits: p.Traits, Generation: p.Generation, Aggregates: p.Aggregates}
		for _, i := range p.Inventories {
			row.Inventories = append(row.Inventories, &storagev1.Inventory{
				ResourceClass: i.ResourceClass, Total: i.Total, Reserved: i.Reserved,
				MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize, AllocationRatio: i.AllocationRatio, Unaccounted: i.Unaccounted, Filled: i.Filled,
			})
		}
		m.Providers = append(m.Providers, row)
	}
	m.Aggregates = aggregateRows(h.Aggregates)
	if n := h.Nova; n != nil {
		m.Nova = &storagev1.NovaHost{
			Aggregates: aggregateRows(n.Aggregates), Ratios: n.Ratios,
			ReportedAggregates: aggregateRows(n.ReportedAggregates), ReportedRatios: n.ReportedRatios, Left: n.Left,
			NumaTopology: n.NUMATopology, PciStats: n.PCIStats, Version: n.Version,
		}
	}
	return m
}

func aggregateRows(in []shard.Aggregate) (out []*storagev1.Aggregate) {
	for _, a := range in {
		out = append(out, &storagev1.Aggregate{Uuid: a.UUID, Name: a.Name, Metadata: a.Metadata})
	}
	return out
}
