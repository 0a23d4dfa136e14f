package proposing

import (
	"maps"
	"math"
	"slices"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// rooms are what hosts of a table have, with the aggregates and the hypervisors that they
// name by their places.
type rooms struct {
	hosts       []*cellv1.HostRoom
	aggregates  []*cellgatev1.HostAggregate
	hypervisors []*cellv1.Hypervisor
}

// roomsOf gives what hosts of a table have free, by their uuids of 16 bytes each, with
// their inventories, their names, the aggregates that they are in, and their hypervisors;
// those that it does not have are left out. Free is the lesser of what the inventory can
// give and what FreeOf says: they differ by the ratio of what is reserved.
func roomsOf(t *schedule.Table, uuids []byte) (out rooms) {
	const n = len(schedule.ID{})
	known := map[string][]int32{} // by uuid: hosts may say otherwise of one aggregate
	hypervisors := map[hypervisor]int32{}
	for ; len(uuids) >= n; uuids = uuids[n:] {
		id := schedule.ID(uuids[:n])
		h, ok := t.Host(id)
		if !ok {
			continue
		}
		to := &cellv1.HostRoom{
			HostUuid: id.String(), Rooms: FreeOf(&h.View), Whole: true, ServiceHost: h.ServiceHost, Nodename: h.NodeName,
		}
		runs := hypervisorOf(&h)
		place, is := hypervisors[runs]
		if !is {
			place = int32(len(out.hypervisors))
			hypervisors[runs] = place
			out.hypervisors = append(out.hypervisors, &cellv1.Hypervisor{Type: runs.kind, Version: runs.version, SupportedInstances: runs.supported})
		}
		to.Hypervisor = place
		whole(&h.View, to.GetRooms())
		for _, r := range h.Resources {
			if i := slices.IndexFunc(to.GetRooms(), func(of *cellv1.Room) bool { return of.GetResourceClass() == r.Class }); i >= 0 {
				of := to.GetRooms()[i]
				of.Amount = min(of.Amount, r.Capacity-r.Used)
				of.Reserved -= r.Used
			}
		}
		for k := range h.Aggregates {
			a := &h.Aggregates[k]
			at := slices.IndexFunc(known[a.UUID], func(i int32) bool { return maps.Equal(out.aggregates[i].GetMetadata(), a.Metadata) })
			if at < 0 {
				at = len(known[a.UUID])
				known[a.UUID] = append(known[a.UUID], int32(len(out.aggregates)))
				out.aggregates = append(out.aggregates, &cellgatev1.HostAggregate{Uuid: a.UUID, Name: a.Name, Metadata: a.Metadata})
			}
			to.Aggregates = append(to.Aggregates, known[a.UUID][at])
		}
		out.hosts = append(out.hosts, to)
	}
	return out
}

type hypervisor struct {
	kind      string
	version   int64
	supported string
}

func hypervisorOf(h *schedule.Host) hypervisor {
	out := hypervisor{version: h.View.HypervisorVersion}
	if h.Facts != nil {
		out.kind, out.supported = h.Facts.HypervisorType, h.Facts.SupportedInstances
	}
	return out
}

// whole adds the inventories to the rooms that FreeOf gave. Reserved has what is in use,
// too.
func whole(v *schedule.View, rooms []*cellv1.Room) {
	for i, of := range [...]struct {
		total, taken int64
		ratio        float64
	}{
		{v.VCPUsTotal, v.VCPUsUsed, v.CPURatio},
		{v.TotalRAMMB, v.TotalRAMMB - v.FreeRAMMB, v.RAMRatio},
		{v.TotalDiskGB, v.DiskUsedMB / 1024, v.DiskRatio},
	} {
		rooms[i].Total, rooms[i].Reserved, rooms[i].AllocationRatio = of.total, of.taken, of.ratio
	}
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
