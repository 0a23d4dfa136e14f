package cell

import (
	"cellgate/cell/replica"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule/hardware"
	"cellgate/shard"
)

// showHardware adds the NUMA cells and devices that a host reports to its message, and what claims take
// of them that no report includes yet.
func (c *Cell) showHardware(m *cellgatev1.Host, row *replica.HostRow) {
	numa, pci := row.Host.HardwareTexts()
	free, problems := hardware.Read(numa, pci)
	if len(problems) > 0 {
		m.HardwareProblem = problems[0].Error()
	}
	reported := free.Pools()
	for _, claim := range c.rows.HardwareClaims(row.Host.UUID) {
		m.HardwareClaims = append(m.HardwareClaims, hardwareClaim(claim))
		free, _ = free.Without(claim.Guest.Assigned)
	}
	for _, n := range free.Cells() {
		shown := &cellgatev1.HostNumaCell{
			Id: int32(n.ID), Socket: int32(n.Socket), SharedCpus: n.Shared, DedicatedCpus: n.Dedicated, PinnedCpus: n.Pinned,
			CpusUsed: int32(n.CPUsUsed), MemoryMb: n.MemoryMB, MemoryUsedMb: n.MemoryUsedMB,
		}
		for _, p := range n.Pages {
			shown.Pages = append(shown.Pages, &cellgatev1.HostPages{SizeKb: p.SizeKB, Total: p.Total, Used: p.Used, Reserved: p.Reserved})
		}
		m.NumaCells = append(m.NumaCells, shown)
	}
	for i, p := range free.Pools() {
		m.DevicePools = append(m.DevicePools, &cellgatev1.HostDevicePool{
			Devices: p.Devices, NumaCell: int32(p.NUMACell), ReportedFree: int32(reported[i].Free), Free: int32(p.Free),
		})
	}
}

// hardwareClaim converts the hardware that a claim takes.
func hardwareClaim(claim *shard.Claim) *cellgatev1.HardwareClaim {
	out := &cellgatev1.HardwareClaim{ClaimId: claim.ClaimID, InstanceUuid: claim.Instance(), Devices: map[string]int32{}}
	for i := range claim.Guest.Assigned.Cells {
		a := &claim.Guest.Assigned.Cells[i]
		out.NumaCells = append(out.NumaCells, &cellgatev1.NumaCellClaim{
			Id: int32(a.ID), PinnedCpus: a.PinnedText(), SharedCpus: int32(a.CPUs), MemoryMb: a.MemoryMB, PageSizeKb: a.PageSize,
		})
	}
	for _, d := range claim.Guest.Assigned.Devices {
		out.Devices[d.Pool] += int32(d.Count)
	}
	return out
}
