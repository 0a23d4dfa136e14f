package cell

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"cellgate/cell/replica"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// hardwareFacts are those of a host with a NUMA cell of four dedicated CPUs, one of which is taken, and two devices.
var hardwareFacts = &agentv1.Facts{
	Stats: "{}",
	NumaTopology: `{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [{"nova_object.name": "NUMACell", "nova_object.data": {
		"id": 0, "cpuset": [0, 1, 2, 3], "pcpuset": [4, 5, 6, 7], "memory": 1024, "cpu_usage": 1, "memory_usage": 100, "pinned_cpus": [4], "siblings": [[4], [5], [6], [7]], "socket": 0,
		"mempages": [{"nova_object.data": {"size_kb": 2048, "total": 100, "used": 7, "reserved": 0}}, {"nova_object.data": {"size_kb": 4, "total": 200000, "used": 0, "reserved": 5}}]}}]}}`,
	PciStats: `{"nova_object.name": "PciDevicePoolList", "nova_object.data": {"objects": [{"nova_object.data":
		{"vendor_id": "10DE", "product_id": "20b5", "numa_node": 0, "count": 2, "tags": {"dev_type": "type-PCI"}}}]}}`,
}

func TestGetHost_ClaimOfHardware_IsShownUntilItIsReported(t *testing.T) {
	r := start(t, newStore(t))
	state := plainState(1, 8)
	state.Facts = hardwareFacts
	agent := r.register(state)
	r.must(guestClaim("c1", 1, 1, &cellv1.Guest{
		Numa:        &cellv1.GuestNuma{Cells: []*cellv1.GuestCell{{Dedicated: 2, MemoryMb: 64, CpuPolicy: "dedicated"}}},
		PciRequests: oneGPU(), JudgeNuma: true, JudgePci: true,
	}))
	shown := func() *cellgatev1.Host {
		_, out := r.listHosts(&cellv1.ListHostsRequest{HostUuid: hostUUID(1), WantNamespaces: true})
		return out.GetHosts()[0]
	}
	const gpu = "dev_type=type-pci,numa_node=0,product_id=20b5,vendor_id=10de"
	small, large := &cellgatev1.HostPages{SizeKb: 4, Total: 200000, Used: 16384, Reserved: 5}, &cellgatev1.HostPages{SizeKb: 2048, Total: 100, Used: 7}
	want := &cellgatev1.Host{
		NumaCells: []*cellgatev1.HostNumaCell{{
			SharedCpus: "0-3", DedicatedCpus: "4-7", PinnedCpus: "4-6", CpusUsed: 1, MemoryMb: 1024, MemoryUsedMb: 164, Pages: []*cellgatev1.HostPages{small, large},
		}},
		DevicePools: []*cellgatev1.HostDevicePool{{Devices: gpu, ReportedFree: 2, Free: 1}},
		HardwareClaims: []*cellgatev1.HardwareClaim{{
			ClaimId: "c1", InstanceUuid: consumerUUID(1), Devices: map[string]int32{gpu: 1},
			NumaCells: []*cellgatev1.NumaCellClaim{{PinnedCpus: "5-6", MemoryMb: 64}},
		}},
	}
	compare := func(when string) {
		t.Helper()
		got := shown()
		for what, pair := range map[string][2]proto.Message{
			"NUMA cell":   {got.GetNumaCells()[0], want.GetNumaCells()[0]},
			"device pool": {got.GetDevicePools()[0], want.GetDevicePools()[0]},
			"claims":      {&cellgatev1.Host{HardwareClaims: got.GetHardwareClaims()}, &cellgatev1.Host{HardwareClaims: want.GetHardwareClaims()}},
		} {
			if !proto.Equal(pair[0], pair[1]) {
				t.Errorf("%s, %s:\n%v\n%v", when, what, pair[0], pair[1])
			}
		}
	}
	compare("claimed")
	r.must(confirm("c1", 1))
	state = proto.CloneOf(state)
	state.Version, state.Instances = 2, []*agentv1.Instance{{InstanceUuid: consumerUUID(1)}}
	agent.report(state)
	// Once the report has the instance, its own numbers for hardware in use count.
	want.HardwareClaims, want.DevicePools[0].Free = nil, 2
	want.NumaCells[0].PinnedCpus, want.NumaCells[0].CpusUsed, want.NumaCells[0].MemoryUsedMb, small.Used = "4", 1, 100, 0
	compare("reported")
}

func TestGetHost_HardwareOfImportedRows_ShownOrSaysWhatIsWrong(t *testing.T) {
	shown := func(numa, pci string) *cellgatev1.Host {
		m := &cellgatev1.Host{}
		start(t, newStore(t)).cell.showHardware(m, &replica.HostRow{Host: &shard.Host{UUID: hostUUID(1), Facts: &shard.Facts{NUMATopology: numa, PCIStats: pci}}})
		return m
	}
	if m := shown(`{"nova_object.data": {"cells": 3}}`, ""); !strings.HasPrefix(m.GetHardwareProblem(), "numa_topology: ") {
		t.Errorf("%v", m)
	}
	m := shown("", `[{"vendor_id": "10de", "product_id": "20b5", "count": 3}]`)
	if pools := m.GetDevicePools(); len(pools) != 1 || pools[0].GetFree() != 3 || pools[0].GetNumaCell() != -1 || pools[0].GetDevices() != "product_id=20b5,vendor_id=10de" {
		t.Errorf("%v", m)
	}
}
