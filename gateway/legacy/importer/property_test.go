package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cellgate/gateway/legacy/novadb"
)

// expected is the naive oracle: what each host holds by the rows, and which hosts there
// are.
func (n *nova) expected() map[string]map[string]int64 {
	all := map[string]map[string]int64{}
	for _, h := range n.hosts {
		sum := map[string]int64{}
		for _, r := range n.rows {
			nodes := 0
			for _, o := range n.hosts {
				if o.ServiceHost == r.Host {
					nodes++
				}
			}
			here := r.Host == h.ServiceHost && (r.Node == h.NodeName || r.Node == "" && nodes == 1)
			if !here || r.Deleted || r.Incomplete || r.VMState == "shelved_offloaded" && r.TaskState != "spawning" || r.VMState == "deleted" {
				continue
			}
			sum["VCPU"] += r.VCPUs
			sum["MEMORY_MB"] += r.MemoryMB
			if sum["DISK_GB"] += r.EphemeralGB; !r.FromVolume {
				sum["DISK_GB"] += r.RootGB
			}
		}
		sum["DISK_GB"] = min(sum["DISK_GB"], max(0, h.View.DiskUsedMB/1024))
		all[h.UUID.String()] = sum
	}
	return all
}

// Whatever happens to the rows, to the calls and to the importer, at last the shard
// holds what the rows say, host by host, and has no more room than they.
func TestHeldIsWhatTheRowsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, cell := newNova(4), newCell()
		restart := func() *Importer {
			m, err := New(Config{
				Cell: "cell1", Rows: n, Calls: 1, StepHosts: rapid.IntRange(1, 5).Draw(t, "step hosts"), BatchHosts: rapid.IntRange(1, 3).Draw(t, "batch"),
				FullEvery: time.Minute, Now: func() time.Time { return n.now }, Random: func() float64 { return 0.5 },
			})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		m := restart()
		instance := rapid.Int64Range(1, 8)
		anyHost := func() int64 {
			return rapid.SampledFrom(append(slices.Sorted(maps.Keys(n.hosts)), 99)).Draw(t, "host")
		}
		cut := func(left int) func(int) error {
			return func(int) error {
				if left--; left < 0 {
					return errCut
				}
				return nil
			}
		}
		actions := map[string]func(*rapid.T){
			"put": func(t *rapid.T) { n.on(instance.Draw(t, "i"), anyHost()) },
			"without node": func(t *rapid.T) {
				n.put(instance.Draw(t, "i"), func(r *novadb.Instance) { r.Host, r.Node = fmt.Sprintf("host%d", anyHost()), "" })
			},
			"resize": func(t *rapid.T) {
				n.put(instance.Draw(t, "i"), func(r *novadb.Instance) {
					r.VCPUs, r.EphemeralGB = rapid.Int64Range(0, 70).Draw(t, "vcpus"), rapid.Int64Range(0, 9).Draw(t, "gb")
				})
			},
			"state": func(t *rapid.T) {
				n.put(instance.Draw(t, "i"), func(r *novadb.Instance) {
					r.VMState = rapid.SampledFrom([]string{"active", "error", "shelved_offloaded", "deleted", "building"}).Draw(t, "state")
					r.TaskState = rapid.SampledFrom([]string{"", "spawning"}).Draw(t, "task")
					r.FromVolume = rapid.Bool().Draw(t, "volume")
					r.Incomplete = rapid.IntRange(0, 5).Draw(t, "null") == 0
				})
			},
			"unhost": func(t *rapid.T) { n.put(instance.Draw(t, "i"), func(r *novadb.Instance) { r.Host, r.Node = "", "" }) },
			"delete": func(t *rapid.T) {
				n.put(instance.Draw(t, "i"), func(r *novadb.Instance) { r.Deleted, r.DeletedAt = true, n.now })
			},
			"purge": func(t *rapid.T) { delete(n.rows, instance.Draw(t, "i")) },
			"use": func(t *rapid.T) {
				if h := n.hosts[anyHost()]; h != nil {
					h.View.VCPUsUsed = rapid.Int64Range(0, 80).Draw(t, "used")
					h.View.FreeRAMMB = rapid.Int64Range(-5000, 65536).Draw(t, "free")
					h.View.DiskUsedMB = 1024 * rapid.Int64Range(0, 1010).Draw(t, "disk")
					h.View.FreeDiskMB = 1024*h.View.TotalDiskGB - h.View.DiskUsedMB - 1024*rapid.SampledFrom([]int64{0, 0, 7}).Draw(t, "other files")
					h.View.CPURatio = rapid.SampledFrom([]float64{0.3, 1, 4, 16}).Draw(t, "ratio")
					n.touch(h.NodeID)
				}
			},
			"host": func(t *rapid.T) {
				i := rapid.Int64Range(1, 5).Draw(t, "h")
				if n.hosts[i] == nil {
					n.addHost(i)
				} else if len(n.hosts) > 1 {
					delete(n.hosts, i)
				}
			},
			"disable": func(*rapid.T) {
				if s := n.services[anyHost()]; s != nil {
					s.Disabled = !s.Disabled
				}
			},
			"time": func(t *rapid.T) {
				n.now = n.now.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
			},
			"crash": func(*rapid.T) { m = restart() },
			"step": func(t *rapid.T) {
				fails := rapid.SampledFrom([]string{"", "", "before", "after", "rows"}).Draw(t, "fails")
				switch left := rapid.IntRange(0, 3).Draw(t, "calls"); fails {
				case "before":
					cell.before = cut(left)
				case "after":
					cell.after = cut(left)
				case "rows":
					end := cut(left)
					n.fail = func() error { return end(0) }
				}
				_, err := m.Step(context.Background(), n.snapshot(), cell)
				if err != nil && (fails == "" || !errors.Is(err, errCut)) {
					t.Fatal(err)
				}
				cell.before, cell.after, n.fail = nil, nil, nil
			},
		}
		for range rapid.IntRange(1, 40).Draw(t, "actions") {
			actions[rapid.SampledFrom(slices.Sorted(maps.Keys(actions))).Draw(t, "action")](t)
		}
		// Quiet: two full passes, and steps enough for all hosts and conflicts.
		for range 3 {
			n.now = n.now.Add(2 * time.Minute)
			for range 50 {
				if _, err := m.Step(context.Background(), n.snapshot(), cell); err != nil {
					t.Fatal(err)
				}
			}
		}
		calls := cell.calls
		if _, err := m.Step(context.Background(), n.snapshot(), cell); err != nil || cell.calls != calls {
			t.Errorf("nothing changed, and there were %d calls more, %v", cell.calls-calls, err)
		}
		for id, want := range n.expected() {
			h := cell.hosts[id]
			if h == nil {
				t.Fatalf("host %s is not in the shard", id)
			}
			if got := cell.used(id); !same(got, want) {
				t.Errorf("host %s holds %v, the rows say %v", h.state.GetServiceHost(), got, want)
			}
			n.room(t, cell, id)
		}
		for id, h := range cell.hosts {
			if _, there := n.expected()[id]; !there && !h.state.GetDisabled() {
				t.Errorf("host %s has no row and is enabled", id)
			}
		}
		for id, c := range cell.claims {
			if r := n.rows[int64(mustID(id)[15])]; r.ID == 0 || r.Deleted || r.Host == "" {
				t.Errorf("instance %s has a claim on %s and is on no host: %+v", id, c.host, r)
			}
		}
	})
}

func same(a, b map[string]int64) bool {
	for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB"} {
		if a[class] != b[class] {
			return false
		}
	}
	return true
}

// room demands that the shard has the room of a host's row, or of the row's instances where
// these hold more.
func (n *nova) room(t interface{ Errorf(string, ...any) }, cell *fakeCell, id string) {
	for _, h := range n.hosts {
		if h.UUID.String() != id {
			continue
		}
		used := cell.used(id)
		v := h.View
		for _, c := range []struct {
			class     string
			total, in int64
			ratio     float64
		}{
			{"VCPU", v.VCPUsTotal, v.VCPUsUsed, v.CPURatio},
			{"MEMORY_MB", v.TotalRAMMB, v.TotalRAMMB - v.FreeRAMMB, v.RAMRatio},
			{"DISK_GB", v.TotalDiskGB, v.DiskUsedMB / 1024, v.DiskRatio},
		} {
			for _, i := range cell.hosts[id].state.GetProviders()[0].GetInventories() {
				if i.GetResourceClass() != c.class {
					continue
				}
				shard := float64(i.GetTotal()-i.GetReserved())*i.GetAllocationRatio() - float64(i.GetUnaccounted()) - float64(used[c.class])
				row := float64(c.total)*c.ratio - float64(max(c.in, used[c.class]))
				if c.class == "DISK_GB" {
					if seen, free := c.total-int64(i.GetUnaccounted())-int64(used[c.class])-int64(i.GetFilled()), v.FreeDiskMB/1024; seen > max(free, -1<<30) {
						t.Errorf("%s: weighers see %d GB free, the row says %d", id, seen, free)
					}
				}
				if max(shard, 0) != max(row, 0) {
					t.Errorf("%s of %s: the shard's room is %v, the row's %v (%d unaccounted for)", c.class, id, shard, row, i.GetUnaccounted())
				}
			}
		}
	}
}
