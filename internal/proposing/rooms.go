package proposing

import (
	"math"
	"slices"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// roomsOf gives what hosts of a table have free, by their uuids of 16 bytes each; those
// that it does not have are left out. It is the lesser of what the inventory can give and
// what FreeOf says: they differ by the ratio of what is reserved.
func roomsOf(t *schedule.Table, uuids []byte) []*cellv1.HostRoom {
	var out []*cellv1.HostRoom
	const n = len(schedule.ID{})
	for ; len(uuids) >= n; uuids = uuids[n:] {
		id := schedule.ID(uuids[:n])
		h, ok := t.Host(id)
		if !ok {
			continue
		}
		rooms := FreeOf(&h.View)
		for _, r := range h.Resources {
			if i := slices.IndexFunc(rooms, func(of *cellv1.Room) bool { return of.GetResourceClass() == r.Class }); i >= 0 {
				rooms[i].Amount = min(rooms[i].Amount, r.Capacity-r.Used)
			}
		}
		out = append(out, &cellv1.HostRoom{HostUuid: id.String(), Rooms: rooms})
	}
	return out
}

// FreeOf is what a view has free of VCPU, MEMORY_MB and DISK_GB: total * ratio, rounded
// down, less what is reserved or in use. Of disk what is taken counts, not what a
// hypervisor measures as free, which no inventory knows.
func FreeOf(v *schedule.View) []*cellv1.Room {
	room := func(class string, total int64, ratio float64, used int64) *cellv1.Room {
		capacity := int64(math.MaxInt64 / 2)
		if c := float64(total) * ratio; c < math.MaxInt64/2 {
			capacity = int64(math.Floor(c))
		}
		return &cellv1.Room{ResourceClass: class, Amount: capacity - used}
	}
	return []*cellv1.Room{
		room("VCPU", v.VCPUsTotal, v.CPURatio, v.VCPUsUsed),
		room("MEMORY_MB", v.TotalRAMMB, v.RAMRatio, v.TotalRAMMB-v.FreeRAMMB),
		room("DISK_GB", v.TotalDiskGB, v.DiskRatio, (v.DiskUsedMB+1023)/1024),
	}
}
