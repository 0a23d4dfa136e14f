package importer

import (
	"fmt"
	"testing"
	"time"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// building writes an instance's host to its row, which is the first write of a compute that claims.
func (n *nova) building(i int64) {
	n.put(i, func(r *novadb.Instance) { r.Host, r.Node, r.VMState, r.TaskState = "host1", "node1", "building", "" })
}

// A compute writes compute_nodes after the instance's host and before the instance's task. However often the rows are
// read in between, a device or a dedicated CPU belongs to one request only.
func TestStep_ComputeStillClaims_ItsHardwareStaysTaken(t *testing.T) {
	numa := func(pinned string) string {
		return `{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [{"nova_object.name": "NUMACell", "nova_object.data": {
			"id": 0, "cpuset": [], "pcpuset": [4], "memory": 1024, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [` + pinned + `], "siblings": [[4]], "socket": 0,
			"mempages": [{"nova_object.data": {"size_kb": 4, "total": 262144, "used": 0, "reserved": 0}}]}}]}}`
	}
	pci := func(free int) string {
		return fmt.Sprintf(`[{"vendor_id": "8086", "product_id": "154c", "count": %d}]`, free)
	}
	for _, c := range []struct {
		name, filter string
		free, taken  schedule.FactTexts
		guest        *cellv1.Guest
	}{
		{
			"a device", schedule.PCIFilter,
			schedule.FactTexts{PCIPools: pci(1)},
			schedule.FactTexts{PCIPools: pci(0)},
			&cellv1.Guest{JudgePci: true, PciRequests: []*cellv1.PciRequest{{Count: 1, NumaPolicy: hardware.PCIPreferred, Specs: []*cellv1.PciSpec{{
				Properties: []*cellv1.PciProperty{{Key: "product_id", Value: "154c"}},
			}}}}},
		},
		{
			"a dedicated CPU", schedule.NUMAFilter,
			schedule.FactTexts{NUMATopology: numa("")},
			schedule.FactTexts{NUMATopology: numa("4")},
			&cellv1.Guest{JudgeNuma: true, Numa: &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{Dedicated: 1, MemoryMb: 64, CpuPolicy: "dedicated"}}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, cell := newNova(1), newScheduler(t)
			m := importerOf(t, n)
			has := func(f schedule.FactTexts) {
				f.HypervisorType, f.HypervisorHostname, f.Stats, f.SupportedInstances = "QEMU", "node1", "{}", "[]"
				n.hosts[1].Facts = schedule.ParseFacts(f)
				n.touch(1)
			}
			next := int64(1)
			steps := func(when string, seen bool) {
				t.Helper()
				for range 3 {
					step(t, m, n, cell)
					next++
					if r := cell.claim(next, c.guest); r.GetFilter() != c.filter {
						t.Errorf("%s: another claim is answered with %v", when, r)
					}
				}
				if got := cell.live(); got[instanceID(1)] != seen || len(got) != 1 {
					t.Errorf("%s: the claims are %v", when, got)
				}
			}
			has(c.free)
			step(t, m, n, cell)
			if r := cell.claim(1, c.guest); r != nil {
				t.Fatal(r)
			}
			steps("the compute has not begun", false)
			n.building(1)
			steps("the instance has its host", false)
			has(c.taken)
			steps("compute_nodes has it", false)
			n.put(1, func(r *novadb.Instance) { r.TaskState = "networking" })
			steps("the instance has its first task", true)
			// Now the host's row counts, not the claim.
			has(c.free)
			step(t, m, n, cell)
			if r := cell.claim(100, c.guest); r != nil {
				t.Error(r)
			}
		})
	}
}

// A compute that unshelves an instance writes its host first, and vm_state when the image has arrived. When it offloads
// the instance, it writes vm_state before it removes the host.
func TestStep_Unshelve_ConfirmsTheClaimWhileItSpawns(t *testing.T) {
	n, cell := newNova(1), newCell()
	m := importerOf(t, n)
	step(t, m, n, cell)
	cell.claims[instanceID(1)] = &fakeClaim{host: hostID(1), pending: true}
	n.on(1, 1)
	n.put(1, func(r *novadb.Instance) { r.VMState, r.TaskState = "shelved_offloaded", "spawning" })
	for range 3 {
		step(t, m, n, cell)
	}
	if c := cell.claims[instanceID(1)]; c == nil || c.pending {
		t.Errorf("while it spawns, the claim is %+v", c)
	}
	n.put(1, func(r *novadb.Instance) { r.TaskState = "" })
	for range 3 {
		step(t, m, n, cell)
	}
	if c := cell.claims[instanceID(1)]; c != nil {
		t.Errorf("once it is offloaded, the claim is %+v", c)
	}
}

// If a compute stops in the middle of its claim, the instance counts once its row is two minutes old, and from then on
// whatever is written to the row.
func TestStep_ComputeStopsInItsClaim_InstanceCountsLater(t *testing.T) {
	for name, fullEvery := range map[string]time.Duration{"changed rows": 24 * time.Hour, "all rows": time.Nanosecond} {
		t.Run(name, func(t *testing.T) {
			n, cell := newNova(1), newCell()
			m := importerOf(t, n, func(c *Config) { c.FullEvery = fullEvery })
			step(t, m, n, cell)
			n.building(1)
			for range 100 {
				if r := step(t, m, n, cell); r.Adopted > 0 {
					t.Fatalf("%+v", r)
				}
			}
			n.now = n.now.Add(30 * time.Second)
			for range 3 {
				step(t, m, n, cell)
			}
			for _, state := range []string{"building", "error"} {
				if len(cell.claims) != 1 {
					t.Fatalf("%d claims", len(cell.claims))
				}
				n.put(1, func(r *novadb.Instance) { r.VMState = state })
				for range 3 {
					if r := step(t, m, n, cell); r.Released > 0 {
						t.Errorf("%s: %+v", state, r)
					}
				}
			}
		})
	}
}

// A host waits for one pass only because of an instance that its compute is claiming for. A time far ahead of the
// server's clock is wrong: the compute is not claiming then.
func TestStep_FirstImportFindsAClaimingInstance_HostWaitsForOnePass(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead   time.Duration
		adopted int
	}{"now": {0, 0}, "a time in the future": {time.Hour, 1}} {
		t.Run(name, func(t *testing.T) {
			n, cell := newNova(1), newCell()
			n.building(1)
			row := n.rows[1]
			row.UpdatedAt = row.UpdatedAt.Add(tt.ahead)
			n.rows[1] = row
			m := importerOf(t, n)
			if r := step(t, m, n, cell); r.Missing != 1 || r.Held != 1 {
				t.Errorf("the first pass: %+v", r)
			}
			adopted := 0
			for range 5 {
				r := step(t, m, n, cell)
				if adopted += r.Adopted; r.Missing != 0 {
					t.Errorf("a later pass: %+v", r)
				}
			}
			if adopted != tt.adopted {
				t.Errorf("%d instances are adopted, want %d", adopted, tt.adopted)
			}
		})
	}
}
