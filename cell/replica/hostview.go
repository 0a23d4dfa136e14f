package replica

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// hostOf converts a host for package schedule.
func hostOf(cellUUID string, row *HostRow, down bool) schedule.Host {
	h := row.Host
	out := schedule.Host{
		UUID:        row.id,
		ServiceHost: h.ServiceHost,
		NodeName:    h.NodeName,
		Cell:        cellUUID,
		Disabled:    h.Disabled,
		Withheld:    row.Admin.Withholding().Text(),
		Down:        down,
		View:        viewOf(row),
		Facts:       row.parsedFacts(),
		Namespaces:  row.texts,
	}
	out.View.PCIFree = out.Facts.FreeDevices()
	for _, a := range h.Aggregates {
		out.Aggregates = append(out.Aggregates, schedule.Aggregate{UUID: a.UUID, Name: a.Name, Metadata: a.Metadata})
	}
	root := RootOf(h)
	if root == nil {
		return out
	}
	out.Traits = slices.Clone(root.Traits)
	out.Resources = resourcesOf(root, row.Usage)
	ids := map[string]schedule.ID{root.UUID: row.id}
	for i := range h.Providers[1:] {
		p := &h.Providers[1+i]
		// The shard has checked the uuid, and that the parent comes before the child.
		id, err := schedule.ParseID(p.UUID)
		if err != nil {
			continue
		}
		ids[p.UUID] = id
		out.Children = append(out.Children, schedule.Provider{
			UUID: id, Parent: ids[p.ParentUUID], Traits: slices.Clone(p.Traits), Resources: resourcesOf(p, row.Usage),
		})
	}
	return out
}

func resourcesOf(p *shard.Provider, usage *shard.Usage) []schedule.Resource {
	var out []schedule.Resource
	for _, i := range p.Inventories {
		out = append(out, schedule.Resource{
			Class:    i.ResourceClass,
			Capacity: i.Capacity(),
			Used:     usage.Of(p.UUID, i.ResourceClass) + i.Unaccounted,
			MinUnit:  i.MinUnit,
			MaxUnit:  i.MaxUnit,
			StepSize: i.StepSize,
		})
	}
	return out
}

// childUsageOf is the usage of all providers but the root.
func childUsageOf(row *HostRow) []schedule.ProviderAmount {
	var out []schedule.ProviderAmount
	for i := range row.Host.Providers {
		p := &row.Host.Providers[i]
		if id, err := schedule.ParseID(p.UUID); i > 0 && err == nil {
			for _, a := range usageOf(p, row.Usage) {
				out = append(out, schedule.ProviderAmount{Provider: id, Class: a.Class, N: a.N})
			}
		}
	}
	return out
}

// usageOf is the usage of a provider, class by class.
func usageOf(p *shard.Provider, usage *shard.Usage) []schedule.Amount {
	if p == nil {
		return nil
	}
	var out []schedule.Amount
	for _, i := range p.Inventories {
		if n := usage.Of(p.UUID, i.ResourceClass) + i.Unaccounted; n > 0 {
			out = append(out, schedule.Amount{Class: i.ResourceClass, N: n})
		}
	}
	return out
}

// viewOf is the host's HostState in Nova (nova/scheduler/host_manager.py), derived from inventories and
// claims. Free and used amounts ignore the allocation ratio. num_io_ops counts the host's own tasks and
// the claims whose instance is not there yet. Free devices are not included: they come from the facts.
func viewOf(row *HostRow) schedule.View {
	h := row.Host
	v := schedule.View{
		NumIOOps:          int64(h.IOWorkload),
		HypervisorVersion: int64(h.HypervisorVersion),
		FailedBuilds:      int64(h.FailedBuilds),
	}
	if u := row.Usage; u != nil {
		v.NumIOOps += int64(u.Pending)
		v.NumInstances = int64(u.Pending) + int64(u.Confirmed)
	}
	root := RootOf(h)
	if root == nil {
		return v
	}
	for _, i := range root.Inventories {
		taken := i.Reserved + i.Unaccounted + row.Usage.Of(root.UUID, i.ResourceClass)
		switch i.ResourceClass {
		case "VCPU":
			v.VCPUsTotal, v.CPURatio = i.Total, i.AllocationRatio
			v.VCPUsUsed += taken
		case "PCPU":
			v.VCPUsUsed += taken // Nova does not count dedicated CPUs in the total, but as used.
		case "MEMORY_MB":
			v.TotalRAMMB, v.RAMRatio, v.FreeRAMMB = i.Total, i.AllocationRatio, i.Total-taken
		case "DISK_GB":
			v.TotalDiskGB, v.DiskRatio = i.Total, i.AllocationRatio
			v.DiskUsedMB, v.FreeDiskMB = taken*1024, (i.Total-taken-i.Filled)*1024
		}
	}
	return v
}

// RootOf returns the root provider, which is the first one; nil without providers.
func RootOf(h *shard.Host) *shard.Provider {
	if len(h.Providers) == 0 {
		return nil
	}
	return &h.Providers[0]
}

// ZonesOf returns the zones of a host's aggregates, sorted and without duplicates.
func ZonesOf(h *shard.Host) []string {
	var out []string
	for _, a := range h.Aggregates {
		zones, _ := a.Zones()
		out = append(out, zones...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// imageOf is the image of a claim's instance, as far as the claim kept it.
func imageOf(g *shard.Guest) (*schedule.Image, error) {
	if len(g.Image) == 0 {
		return nil, nil
	}
	m := &cellv1.NovaImage{}
	if err := proto.Unmarshal(g.Image, m); err != nil {
		return nil, err
	}
	return &schedule.Image{Properties: wire.Properties(m.GetProperties())}, nil
}
