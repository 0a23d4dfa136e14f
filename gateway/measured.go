package gateway

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

const (
	// measuredWithin is by how many GB the free disk of a measured host may differ: both sides round.
	measuredWithin = 2
	// measuredFor is how long it may differ by more, when it did not before: two of nova-compute's
	// periods (update_available_resource, 60 s) and a bit.
	measuredFor = 130 * time.Second
)

// measuredDisks keeps what was seen, in the epoch of a gate, of hosts whose disk is measured: those
// with a disk_available_least. nova-compute measures each minute, and writes the start and the end of an
// instance at once, as free_disk_gb alone; agents measure too. So row and shard are seldom equal all the
// time. A host agrees when they were within measuredWithin at some look of the last measuredFor; it
// differs when they were not, or were at no look of this epoch. Safe for concurrent use.
type measuredDisks struct {
	mu    sync.Mutex
	epoch int64
	of    map[schedule.ID]measuredDisk
	// apart are those of which what is free was not equal at the newest look, or what weighers see of it.
	apart map[string]bool
}

// measuredDisk is a host: when it was looked at first, and when it agreed last; zero for never.
type measuredDisk struct{ first, agreed time.Time }

// took takes what the cell said of hosts under an epoch of its gate, and gives those that differ.
// A host of under, with claims that its row may not show, neither agrees nor
// differs; one of busy alone may have less by the shard. So does one whose nova-compute is down, which
// measures nothing, and one whose agent reports no disk.
func (d *measuredDisks) took(rows *knownRows, epoch int64, told []*cellv1.HostRoom, busy, under map[string]bool, now time.Time) (differ suspects) {
	differ = suspects{}
	if rows == nil {
		return differ
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil || d.epoch != epoch {
		d.epoch, d.of, d.apart = epoch, map[schedule.ID]measuredDisk{}, map[string]bool{}
	}
	for _, in := range told {
		id := in.GetHostUuid()
		uuid, err := schedule.ParseID(id)
		if err != nil {
			continue
		}
		delete(d.apart, id)
		row := rows.host(uuid)
		if row == nil || !row.DiskMeasured {
			continue
		}
		disk, has := freeDisksOf(row, in)
		if disk.apart() {
			d.apart[id] = true
		}
		less := disk.row > disk.most+measuredWithin
		if !has || row.Down || under[id] || less && busy[id] {
			continue
		}
		seen, is := d.of[uuid]
		if !is {
			seen.first = now
		}
		if !less && disk.shard <= disk.row+measuredWithin {
			seen.agreed = now
		} else if now.Sub(seen.agreed) > measuredFor {
			since := seen.first
			if !seen.agreed.IsZero() {
				since = seen.agreed
			}
			differ[id] = fmt.Sprintf("DISK_GB free %d by the row, as measured, %d by the shard, since %s", disk.row, disk.shard, since.UTC().Format(time.RFC3339))
		}
		d.of[uuid] = seen
	}
	return differ
}

// notEqual gives the hosts whose disk cannot be compared in a list of hosts.
func (d *measuredDisks) notEqual() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.apart)
}

// freeDisks is what a host has free by its row and by the shard, in GB.
type freeDisks struct {
	row, shard int64
	// most is shard without what a ratio makes of reserves: these count with it in an inventory, as in
	// Placement, and without in a row.
	most int64
	// scaled: something is reserved under a ratio, so that weighers see another amount than claims.
	scaled bool
}

func (f freeDisks) apart() bool { return f.row != f.shard || f.scaled }

// freeDisksOf compares; has is false when the cell has no disk of the host.
func freeDisksOf(row *legacy.Host, told *cellv1.HostRoom) (out freeDisks, has bool) {
	disk := func(rooms []*cellv1.Room) *cellv1.Room {
		if i := slices.IndexFunc(rooms, func(r *cellv1.Room) bool { return r.GetResourceClass() == "DISK_GB" }); i >= 0 {
			return rooms[i]
		}
		return &cellv1.Room{}
	}
	v := row.View
	v.DiskUsedMB = v.TotalDiskGB*1024 - v.FreeDiskMB
	in := disk(told.GetRooms())
	total, reserved, ratio := in.GetTotal(), in.GetReserved(), in.GetAllocationRatio()
	out.row, out.shard = max(disk(proposing.FreeOf(&v)).GetAmount(), 0), max(in.GetAmount(), 0)
	out.most = out.shard
	if reserved > 0 && ratio != 1 && total > 0 {
		out.scaled = true
		counts := reserved
		if ratio > 1 { // but for what Nova reserves: the agent's own is to be of before the ratio
			used := int64(math.Floor(float64(total-reserved)*ratio)) - in.GetAmount()
			counts = min(counts, max((row.View.DiskUsedMB+1023)/1024-used, 0))
		}
		out.most = max(in.GetAmount()+int64(math.Ceil(float64(counts)*math.Abs(ratio-1))), 0)
	}
	return out, told.GetWhole() && total > 0
}

// withoutDisk reports whether the next comparison asks for no disk.
func (c *comparer) withoutDisk() bool {
	apart := len(c.disks.notEqual()) > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.diskless = apart && !c.diskless
	return c.diskless
}

// leftOut gives the hosts that a comparison leaves out of its answers: busy ones, and where it asks for
// disk those whose measured disk is not equal.
func (c *comparer) leftOut(j comparison, busy map[string]bool) map[string]bool {
	if j.diskless {
		return busy
	}
	out := c.disks.notEqual()
	if len(out) == 0 {
		return busy
	}
	maps.Copy(out, busy)
	return out
}
