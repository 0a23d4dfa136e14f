package standin

import (
	"math"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
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
	// withheld is an operator's word of the cell, nil for none.
	withheld *cellv1.WithheldHost
	// absent: the shard lacks it, and it cannot be imported.
	absent bool
	// update is the last one that had it.
	update uint64
}

// whole is a host with the claims on it that its row does not show, and with no more
// room than the shard said; nil when it said nothing.
func (h *host) whole(on []*claim, left *room) schedule.Host {
	out := h.row.Host
	out.Withheld, out.Down = h.withheld.GetWhy(), h.down || h.withheld.GetDown()
	if h.absent && out.Withheld == "" {
		out.Withheld = absentWhy
	}
	out.View = h.view(on)
	for at, i := range inventories(&h.row.View) {
		out.Resources = append(out.Resources, schedule.Resource{
			Class: i.class, Capacity: i.capacity(), Used: i.taken(on, left, at), MinUnit: 1, MaxUnit: max(i.total, 1), StepSize: 1,
		})
	}
	return out
}

// used is what its row and the claims take, by class, and what the shard has given
// beyond.
func (h *host) used(on []*claim, left *room) []schedule.Amount {
	var out []schedule.Amount
	for at, i := range inventories(&h.row.View) {
		out = append(out, schedule.Amount{Class: i.class, N: i.taken(on, left, at)})
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

// mostRatio is the greatest allocation ratio of a shard's inventory; the importer sends
// none above.
const mostRatio = 100_000

// capacity is total * ratio, rounded down: as of a shard's inventory.
func (i *inventory) capacity() int64 {
	c := float64(i.total) * min(i.ratio, mostRatio)
	if c >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Floor(c))
}

// taken is what is in use by the row and the claims, or by the shard when that is more.
func (i *inventory) taken(on []*claim, left *room, at int) int64 {
	used := i.used + i.of(on)
	if limit := left.limit(at); limit < math.MaxInt64 {
		used = max(used, i.capacity()-limit)
	}
	return used
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
