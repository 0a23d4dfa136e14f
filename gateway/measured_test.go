package gateway

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// A host of a measured disk agrees when row and shard were near each other at a look of the last two
// minutes, and differs, with both amounts and since when, when they were not.
func TestMeasuredDisks(t *testing.T) {
	const host = "a0000000-0000-4000-8000-000000000001"
	begin := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	type look struct {
		at, row, shard int64
		with           string // busy, instanceless, down, unmeasured, diskless, renewed
	}
	for name, c := range map[string]struct {
		looks []look
		want  string
	}{
		"equal":                       {[]look{{0, 80, 80, ""}}, ""},
		"nearly more":                 {[]look{{0, 80, 82, ""}}, ""},
		"nearly less":                 {[]look{{0, 80, 78, ""}}, ""},
		"more from the beginning":     {[]look{{5, 80, 83, ""}, {9, 80, 83, ""}}, "DISK_GB free 80 by the row, as measured, 83 by the shard, since 2026-11-23T12:00:05Z"},
		"less from the beginning":     {[]look{{5, 80, 77, ""}, {9, 80, 20, ""}}, "DISK_GB free 80 by the row, as measured, 20 by the shard, since 2026-11-23T12:00:05Z"},
		"an instance ended":           {[]look{{0, 80, 80, ""}, {2, 80, 100, ""}, {130, 80, 100, ""}}, ""},
		"and the row never had it":    {[]look{{0, 80, 80, ""}, {2, 80, 100, ""}, {131, 80, 100, ""}}, "DISK_GB free 80 by the row, as measured, 100 by the shard, since 2026-11-23T12:00:00Z"},
		"and it was measured at last": {[]look{{0, 80, 80, ""}, {2, 80, 100, ""}, {131, 80, 100, ""}, {133, 100, 100, ""}, {200, 80, 100, ""}}, ""},
		"a file came":                 {[]look{{0, 80, 80, ""}, {50, 80, 30, ""}, {131, 80, 30, ""}}, "DISK_GB free 80 by the row, as measured, 30 by the shard, since 2026-11-23T12:00:00Z"},
		"busy ones tell nothing":      {[]look{{0, 80, 120, "busy"}, {2, 80, 40, "busy"}}, ""},
		"nor do they agree":           {[]look{{0, 80, 80, "busy"}, {2, 80, 120, ""}}, "DISK_GB free 80 by the row, as measured, 120 by the shard, since 2026-11-23T12:00:02Z"},
		"a claim without an instance": {[]look{{0, 80, 40, "instanceless"}}, ""},
		"has no more for all that":    {[]look{{0, 80, 100, "instanceless"}}, "DISK_GB free 80 by the row, as measured, 100 by the shard, since 2026-11-23T12:00:00Z"},
		"nova-compute is down":        {[]look{{0, 80, 100, "down"}}, ""},
		"nobody measures":             {[]look{{0, 80, 100, "unmeasured"}}, ""},
		"the agent has no disk":       {[]look{{0, 80, 0, "diskless"}}, ""},
		"another SHADOW":              {[]look{{0, 80, 80, ""}, {2, 80, 100, "renewed"}}, "DISK_GB free 80 by the row, as measured, 100 by the shard, since 2026-11-23T12:00:02Z"},
		"below nothing":               {[]look{{0, -30, 0, ""}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var d measuredDisks
			var got string
			for _, l := range c.looks {
				row := legacy.Host{Host: testHost(1, 1), DiskMeasured: l.with != "unmeasured"}
				row.UUID, row.Down = mustID(host), l.with == "down"
				row.View = schedule.View{TotalDiskGB: 200, DiskRatio: 1, FreeDiskMB: l.row * 1024}
				in := &cellv1.Room{ResourceClass: "DISK_GB", Amount: l.shard, Total: 200, AllocationRatio: 1}
				if l.with == "diskless" {
					in.Total, in.AllocationRatio = 0, 0
				}
				busy, under, epoch := map[string]bool{}, map[string]bool{}, int64(7)
				switch l.with {
				case "busy":
					busy[host], under[host] = true, true
				case "instanceless":
					busy[host] = true
				case "renewed":
					epoch = 8
				}
				rows := &knownRows{Snapshot: &legacy.Snapshot{Hosts: []legacy.Host{row}}}
				differ := d.took(rows, epoch, []*cellv1.HostRoom{{HostUuid: host, Whole: true, Rooms: []*cellv1.Room{in}}}, busy, under, begin.Add(time.Duration(l.at)*time.Second))
				got = differ[host]
				if apart := l.row != l.shard && l.with != "unmeasured" && (l.row > 0 || l.shard > 0); d.notEqual()[host] != apart {
					t.Errorf("at %d s it is apart: %v", l.at, !apart)
				}
			}
			if got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

// Under a ratio what a row has less is less by so much, and what is reserved costs an inventory so many
// times as much: what Nova reserves does in Placement, too; all else an agent has to divide.
func TestMeasuredDisksUnderARatio(t *testing.T) {
	// 200 GB, 20 of them in use by instances.
	for name, c := range map[string]struct {
		ratio          float64
		used           int64 // of the row, what Nova reserves included
		least          int64
		reserved       int64
		differs, apart bool
	}{
		"nothing else":                   {4, 20, 180, 0, false, false},
		"100 GB of files, divided":       {4, 20, 80, 25, false, true},
		"100 GB of files, four times":    {4, 20, 80, 100, true, true},
		"of which nobody knows":          {4, 20, 80, 0, true, true},
		"30 GB that Nova reserves":       {4, 50, 150, 30, false, true},
		"the agent does not":             {4, 50, 150, 0, true, true},
		"40 GB of files under a half":    {0.5, 20, 140, 80, false, true},
		"twice what there is under half": {0.5, 20, 140, 120, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			row := legacy.Host{DiskMeasured: true}
			row.View = schedule.View{TotalDiskGB: 200, DiskRatio: c.ratio, DiskUsedMB: c.used * 1024, FreeDiskMB: c.least * 1024}
			inventory := int64(float64(200-c.reserved)*c.ratio) - 20
			view := int64(200*c.ratio) - c.reserved - 20
			in := &cellv1.Room{ResourceClass: "DISK_GB", Amount: min(inventory, view), Total: 200, Reserved: c.reserved, AllocationRatio: c.ratio}
			got, has := freeDisksOf(&row, &cellv1.HostRoom{Whole: true, Rooms: []*cellv1.Room{in}})
			differs := got.shard > got.row+measuredWithin || got.row > got.most+measuredWithin
			if !has || differs != c.differs || got.apart() != c.apart {
				t.Errorf("%+v, %v: differs %v, apart %v", got, has, differs, got.apart())
			}
		})
	}
}

// aDisk is a host of 200 GB, all but those free.
func aDisk(n int, free int64) schedule.Host {
	h := testHost(n, 1)
	h.Resources[2].Capacity, h.Resources[2].Used = 200, 200-free
	h.View.TotalDiskGB, h.View.FreeDiskMB = 200, free*1024
	return h
}

// One host whose disk was measured says nothing of others: each is compared, with disk or without.
func TestShadowOfMeasuredDisks(t *testing.T) {
	exact := func(n int, free int64) schedule.Host { // nobody measures
		h := aDisk(n, free)
		h.View.DiskUsedMB = (200 - free) * 1024
		return h
	}
	for name, c := range map[string]struct {
		native, rows []schedule.Host
		want         string // of all examples; "" for none
	}{
		"the agent reserves what is measured": {[]schedule.Host{exact(1, 200), aDisk(2, 80)}, []schedule.Host{exact(1, 200), aDisk(2, 80)}, ""},
		"nearly":                              {[]schedule.Host{exact(1, 200), aDisk(2, 81)}, []schedule.Host{exact(1, 200), aDisk(2, 80)}, ""},
		"a little more":                       {[]schedule.Host{exact(1, 200), aDisk(2, 79)}, []schedule.Host{exact(1, 200), aDisk(2, 80)}, ""},
		"the agent knows nothing of it":       {[]schedule.Host{exact(1, 200), aDisk(2, 200)}, []schedule.Host{exact(1, 200), aDisk(2, 80)}, "host002: DISK_GB free 80 by the row, as measured, 200 by the shard, since "},
		"it reserves twice as much":           {[]schedule.Host{exact(1, 200), aDisk(2, 20)}, []schedule.Host{exact(1, 200), aDisk(2, 80)}, "host002: DISK_GB free 80 by the row, as measured, 20 by the shard, since "},
		"another has less":                    {[]schedule.Host{exact(1, 100), aDisk(2, 79)}, []schedule.Host{exact(1, 200), aDisk(2, 80)}, "host001 passes by the legacy rows, and not by the cell's table"},
		"nearly, and no filter":               {[]schedule.Host{exact(1, 200), aDisk(2, 79)}, []schedule.Host{exact(1, 200), failing(aDisk(2, 80))}, "host002 is in place "},
		"all of them a little":                {[]schedule.Host{aDisk(1, 79), aDisk(2, 79)}, []schedule.Host{aDisk(1, 80), aDisk(2, 80)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, f, _ := shadowing(t, c.native, c.rows)
				time.Sleep(40 * time.Second)
				compared, differed, examples := f.toldOf()
				if compared < 30 || (differed > 0) != (c.want != "") {
					t.Fatalf("%d compared, %d differed: %v", compared, differed, examples[:min(1, len(examples))])
				}
				for _, e := range examples {
					if !strings.HasPrefix(e.GetDetail(), c.want) && !strings.Contains(e.GetDetail(), "host001 is in place") {
						t.Errorf("an example says %q, want %q", e.GetDetail(), c.want)
					}
				}
			})
		})
	}
}

func failing(h schedule.Host) schedule.Host {
	h.Disabled = true
	return h
}

// Instances come and go, in the shard and in free_disk_gb at once, and nova-compute measures each
// minute: after that nothing differs. A host whose disk is never measured anew does, and no other.
func TestShadowOfMeasuredDisksWhereInstancesComeAndGo(t *testing.T) {
	if os.Getenv("CELLGATE_LONG") == "" {
		t.Skip("a minute with the race detector: CELLGATE_LONG=1 runs it; TestShadowOfMeasuredDisks is its short form")
	}
	for name, stuck := range map[string]bool{"all are measured": false, "one is not any more": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const hosts, other, disk = 10, 10, 20
				live, least := [hosts]int64{}, [hosts]int64{}
				var native, rows []schedule.Host
				for i := range hosts {
					live[i] = 4
					least[i] = 200 - other - 4*disk
					native, rows = append(native, aDisk(i+1, least[i])), append(rows, aDisk(i+1, least[i]))
				}
				_, f, u := shadowing(t, native, rows)
				write := func(i int) {
					h := aDisk(i+1, min(200-live[i]*disk, least[i]))
					h.View.DiskUsedMB, h.View.DiskRatio, h.View.RAMRatio, h.View.TotalRAMMB = live[i]*disk*1024, 1, 1, h.Resources[1].Capacity
					u.reader.mu.Lock()
					u.reader.hosts[i].Host = h
					u.reader.mu.Unlock()
					u.standIn.table.edit(func(e *schedule.Edit) { e.PutHost(h) })
					h = aDisk(i+1, 200-other-live[i]*disk)
					f.edit(func(e *schedule.Edit) { e.PutHost(h) })
				}
				measure := func(second int) {
					if i := second % 60 / 6; second%6 == 3 && i < hosts && !(stuck && i == 4 && second > 60) {
						least[i] = 200 - other - live[i]*disk
						write(i)
					}
				}
				for second := range 240 {
					time.Sleep(time.Second)
					u.reader.mu.Lock()
					u.reader.services[0].LastSeenUp, u.reader.beat = time.Now(), time.Now()
					u.reader.mu.Unlock()
					measure(second)
					if second%10 != 0 {
						continue
					}
					if at := second / 10; stuck { // one that ends on the fifth host, and no more there
						live[at%4]++
						live[(at+3)%4]--
						write(at % 4)
						write((at + 3) % 4)
						if second > 60 {
							live[4] = 3
							write(4)
						}
					} else {
						live[(at*7)%hosts]--
						live[(at*7+3)%hosts]++
						write((at * 7) % hosts)
						write((at*7 + 3) % hosts)
					}
				}
				f.mu.Lock()
				var late, differed int64
				var said string
				for _, r := range f.gate.reports[len(f.gate.reports)*3/5:] {
					late, differed = late+r.GetCompared(), differed+r.GetDiffered()
					for _, e := range r.GetDifferences() {
						said = e.GetDetail()
					}
				}
				f.mu.Unlock()
				if want := "host005: DISK_GB free 110 by the row, as measured, 130 by the shard, since "; late < 50 || (differed > 0) != stuck || stuck && !strings.HasPrefix(said, want) {
					t.Errorf("%d compared late, %d differed: %s", late, differed, said)
				}
			})
		})
	}
}
