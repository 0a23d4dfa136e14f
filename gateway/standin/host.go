package standin

import (
	"math"

	"cellgate/gateway/legacy"
	"cellgate/schedule"
)

// The classes that the rows speak of.
const (
	vcpu     = "VCPU"
	memoryMB = "MEMORY_MB"
	diskGB   = "DISK_GB"
)

// host is one of the newest rows.
type host struct {
	row  *legacy.Host
	down bool
	// update is the last one that had it.
	update uint64
}

// whole is a host with the claims on it that its row does not show.
func (h *host) whole(on []*claim) schedule.Host {
	out := h.row.Host
	out.Down = h.down
	out.View = h.view(on)
	for _, i := range inventories(&h.row.View) {
		capacity := i.capacity()
		out.Resources = append(out.Resources, schedule.Resource{
			Class: i.class, Capacity: capacity, Used: i.used + i.of(on), MinUnit: 1, MaxUnit: max(i.total, 1), StepSize: 1,
		})
	}
	return out
}

// used is what its row and the claims take, by class.
func (h *host) used(on []*claim) []schedule.Amount {
	var out []schedule.Amount
	for _, i := range inventories(&h.row.View) {
		out = append(out, schedule.Amount{Class: i.class, N: i.used + i.of(on)})
	}
	return out
}

// view is Nova's picture of the host with the claims: as a cell has it of claims whose
// instances no report has.
func (h *host) view(on []*claim) schedule.View {
	v := h.row.View
	for _, c := range on {
		v.VCPUsUsed += c.vcpus
		v.FreeRAMMB -= c.memoryMB
		v.FreeDiskMB -= c.diskGB * 1024
		v.DiskUsedMB += c.diskGB * 1024
		v.NumInstances++
		v.NumIOOps++
	}
	return v
}

// inventory is what a row has of a class. Nothing is reserved: what Nova keeps for the
// host itself is among what is used.
type inventory struct {
	class       string
	total, used int64
	ratio       float64
	of          func([]*claim) int64
}

// inventories of a row. Of disk the lesser of what is free and what the hypervisor can
// still give counts, as in Nova.
func inventories(v *schedule.View) [3]inventory {
	return [3]inventory{
		{vcpu, v.VCPUsTotal, v.VCPUsUsed, v.CPURatio, func(on []*claim) (n int64) {
			for _, c := range on {
				n += c.vcpus
			}
			return n
		}},
		{memoryMB, v.TotalRAMMB, v.TotalRAMMB - v.FreeRAMMB, v.RAMRatio, func(on []*claim) (n int64) {
			for _, c := range on {
				n += c.memoryMB
			}
			return n
		}},
		{diskGB, v.TotalDiskGB, v.TotalDiskGB - int64(math.Floor(float64(v.FreeDiskMB)/1024)), v.DiskRatio, func(on []*claim) (n int64) {
			for _, c := range on {
				n += c.diskGB
			}
			return n
		}},
	}
}

// capacity is total * ratio, rounded down: as of a shard's inventory.
func (i *inventory) capacity() int64 {
	c := float64(i.total) * i.ratio
	if c >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Floor(c))
}

// guests are what claims take of NUMA cells and devices, the longest known first.
func guests(on []*claim) []*schedule.NovaRequest {
	var out []*schedule.NovaRequest
	for _, c := range on {
		if c.guest != nil {
			out = append(out, c.guest)
		}
	}
	return out
}
