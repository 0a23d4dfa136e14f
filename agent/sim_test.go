package agent

import (
	"slices"
	"strings"
	"testing"

	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// fleetOf simulates a cell as large as the bundled requests are written for.
func fleetOf(t *testing.T, cell string) []*agentv1.FullState {
	t.Helper()
	all := make([]*agentv1.FullState, 1000)
	for i := range all {
		all[i] = Simulate(1, cell, i)
		all[i].BootId, all[i].Version = "00000000-0000-4000-8000-000000000000", 1
	}
	return all
}

func inventory(s *agentv1.FullState, class string) *agentv1.Inventory {
	for _, i := range s.GetProviders()[0].GetInventories() {
		if i.GetResourceClass() == class {
			return i
		}
	}
	return nil
}

func TestSimulatedStatesAreValid(t *testing.T) {
	seen := map[string]string{}
	for i, s := range append(fleetOf(t, "cell1"), fleetOf(t, "cell2")...) {
		if i%8 == 0 { // every slot of a rack, in some rack
			if err := rpc.Validate(s); err != nil {
				t.Fatalf("%s: %v", s.GetServiceHost(), err)
			}
		}
		ids := []string{s.GetHostUuid()}
		for _, i := range s.GetInstances() {
			ids = append(ids, i.GetInstanceUuid())
		}
		for _, id := range ids {
			if at, dup := seen[id]; dup {
				t.Fatalf("uuid %s is at %s and %s", id, at, s.GetServiceHost())
			}
			seen[id] = s.GetServiceHost()
		}
	}
}

// The table of samples/README.md, host by host.
func TestFleetKeepsTheTableOfTheSamples(t *testing.T) {
	for i, s := range fleetOf(t, "cell3") {
		rack, slot := i/25+1, i%25+1
		has := func(trait string) bool { return slices.Contains(s.GetProviders()[0].GetTraits(), trait) }
		in := func(name string) bool {
			return slices.ContainsFunc(s.GetAggregates(), func(a *agentv1.Aggregate) bool { return a.GetName() == name })
		}
		cpu, ram, disk := inventory(s, "VCPU"), inventory(s, "MEMORY_MB"), inventory(s, "DISK_GB")
		within := func(v, least, most int32) bool { return least <= v && v <= most }
		general, fast, huge := slot <= 12, slot >= 13 && slot <= 20, slot >= 21 && slot <= 23
		gold := slot >= 16 && slot <= 20 && rack%2 == 0
		for what, ok := range map[string]bool{
			"node":      s.GetNodename() == s.GetServiceHost()+".sim.example",
			"general":   !general || within(cpu.GetTotal(), 32, 64) && within(ram.GetTotal(), 131072, 524288) && within(disk.GetTotal(), 2000, 4000) && cpu.GetAllocationRatio() == 4,
			"fast":      !fast || within(cpu.GetTotal(), 64, 128) && within(ram.GetTotal(), 524288, 1048576) && within(disk.GetTotal(), 4000, 8000) && cpu.GetAllocationRatio() == 4,
			"huge":      !huge || within(cpu.GetTotal(), 192, 256) && ram.GetTotal() == 4194304 && disk.GetTotal() == 30000 && cpu.GetAllocationRatio() == 1,
			"special":   slot < 24 || cpu.GetTotal() == 64 && ram.GetTotal() == 524288 && disk.GetTotal() == 4000 && cpu.GetAllocationRatio() == 2,
			"vgpu":      (slot == 24) == (inventory(s, "VGPU") != nil),
			"card":      (slot == 25) == (inventory(s, "CUSTOM_FPGA_CARD") != nil),
			"reserved":  rack == 1 && slot == 2 || cpu.GetReserved() <= 2 && ram.GetReserved() <= 8192 && disk.GetReserved() <= 50,
			"full":      rack != 1 || slot != 2 || ram.GetReserved() == ram.GetTotal()-512,
			"disabled":  s.GetDisabled() == (slot == 1 && rack%8 == 4),
			"avx2":      has("HW_CPU_X86_AVX2"),
			"avx512":    has("HW_CPU_X86_AVX512F") == (slot >= 7),
			"attach":    has("COMPUTE_VOLUME_MULTI_ATTACH") == (slot >= 4),
			"hdd":       has("STORAGE_DISK_HDD") == general,
			"ssd":       has("STORAGE_DISK_SSD") == !general && in("ssd") == !general,
			"gold":      has("CUSTOM_GOLD") == gold && in("gold") == gold,
			"gpu":       has("CUSTOM_GPU_A40") == (slot == 24) && in("gpu") == (slot == 24),
			"fpga":      has("CUSTOM_FPGA") == (slot == 25) && in("fpga") == (slot == 25),
			"sgx":       has("HW_CPU_X86_SGX") == (slot == 21 && rack%2 == 1),
			"quantum":   !has("CUSTOM_QUANTUM"),
			"az1":       in("az1") == (rack%3 == 1 && rack%10 != 0),
			"az2":       in("az2") == (rack%3 == 2 && rack%10 != 0),
			"az3":       in("az3") == (rack%3 == 0 && rack%10 != 0),
			"retired":   !in("retired"),
			"rare free": slot <= 20 || len(s.GetInstances()) == 0,
		} {
			if !ok {
				t.Errorf("%s: %s is not as the table says", s.GetServiceHost(), what)
			}
		}
	}
	if u := inventory(Simulate(1, "cell1", 23), "VGPU"); u.GetTotal() != 16 || u.GetMaxUnit() != 4 {
		t.Errorf("VGPU = %v, want 16 with max_unit 4", u)
	}
	if s := Simulate(1, "cell1", 28); s.GetServiceHost() != "cell1-r02-h004" || s.GetAggregates()[0].GetUuid() != "a0000000-0000-4000-8000-000000000002" {
		t.Errorf("host 28 = %s in %v", s.GetServiceHost(), s.GetAggregates())
	}
}

func TestFleetIsVaried(t *testing.T) {
	busy, used, versions, sizes := 0, 0, map[int32]bool{}, map[string]bool{}
	for _, s := range fleetOf(t, "cell1") {
		if s.GetIoWorkload() > 0 {
			busy++
		}
		if len(s.GetInstances()) > 0 {
			used++
		}
		versions[s.GetHypervisorVersion()] = true
		var b strings.Builder
		for _, i := range s.GetProviders()[0].GetInventories() {
			b.WriteString(i.String())
		}
		sizes[b.String()] = true
		// Existing instances fit into half of the host.
		sum := map[string]float64{}
		for _, i := range s.GetInstances() {
			for _, u := range i.GetUsages() {
				sum[u.GetResourceClass()] += float64(u.GetAmount())
			}
		}
		for class, n := range sum {
			i := inventory(s, class)
			if most := float64(i.GetTotal()-i.GetReserved()) * i.GetAllocationRatio() / 2; n > most {
				t.Errorf("%s: instances use %v of %s, at most %v", s.GetServiceHost(), n, class, most)
			}
		}
	}
	if busy < 20 || used < 200 || len(versions) < 3 || len(sizes) < 50 {
		t.Errorf("busy %d, with instances %d, versions %d, different inventories %d: not varied", busy, used, len(versions), len(sizes))
	}
}
