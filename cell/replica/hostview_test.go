package replica

import (
	"reflect"
	"testing"

	"cellgate/schedule"
	"cellgate/shard"
)

func TestHostViewFollowsFromInventoriesAndClaims(t *testing.T) {
	id, err := schedule.ParseID(hostA)
	if err != nil {
		t.Fatal(err)
	}
	const gpu = "aaaaaaaa-0000-4000-8000-0000000000ff"
	row := &HostRow{
		id: id,
		Host: &shard.Host{
			UUID: hostA, ServiceHost: "h1", NodeName: "n1", Disabled: true,
			IOWorkload: 3, FailedBuilds: 2, HypervisorVersion: 6002003,
			Aggregates: []shard.Aggregate{
				{UUID: "agg", Name: "rack", Metadata: map[string]string{"availability_zone": "west"}},
				{UUID: "agg2", Metadata: map[string]string{"ssd": "true"}},
			},
			Providers: []shard.Provider{
				{UUID: hostA, Traits: []string{"HW_CPU_X86_AVX2"}, Inventories: []shard.Inventory{
					{ResourceClass: "VCPU", Total: 16, Reserved: 2, MinUnit: 1, MaxUnit: 16, StepSize: 1, AllocationRatio: 4},
					{ResourceClass: "MEMORY_MB", Total: 65536, Reserved: 512, MinUnit: 1, MaxUnit: 65536, StepSize: 1, AllocationRatio: 1.5, Unaccounted: 100},
					{ResourceClass: "DISK_GB", Total: 1000, Reserved: 100, MinUnit: 1, MaxUnit: 1000, StepSize: 10, AllocationRatio: 1},
					{ResourceClass: "PCPU", Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 1},
				}},
				{UUID: gpu, ParentUUID: hostA, Traits: []string{"CUSTOM_GPU"}, Inventories: []shard.Inventory{
					{ResourceClass: "VGPU", Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, AllocationRatio: 1},
				}},
			},
		},
		Usage: &shard.Usage{HostUUID: hostA, Pending: 2, Confirmed: 5, Used: []shard.Used{
			{ProviderUUID: hostA, ResourceClass: "DISK_GB", Amount: 40},
			{ProviderUUID: hostA, ResourceClass: "MEMORY_MB", Amount: 4096},
			{ProviderUUID: hostA, ResourceClass: "PCPU", Amount: 3},
			{ProviderUUID: hostA, ResourceClass: "VCPU", Amount: 8},
			{ProviderUUID: gpu, ResourceClass: "VGPU", Amount: 1},
		}},
	}
	want := schedule.Host{
		UUID: id, ServiceHost: "h1", NodeName: "n1", Cell: "cell-uuid", Disabled: true, Down: true,
		Traits: []string{"HW_CPU_X86_AVX2"},
		Aggregates: []schedule.Aggregate{
			{UUID: "agg", Name: "rack", Metadata: map[string]string{"availability_zone": "west"}},
			{UUID: "agg2", Metadata: map[string]string{"ssd": "true"}},
		},
		Resources: []schedule.Resource{
			{Class: "VCPU", Capacity: 56, Used: 8, MinUnit: 1, MaxUnit: 16, StepSize: 1},
			{Class: "MEMORY_MB", Capacity: 97536, Used: 4096 + 100, MinUnit: 1, MaxUnit: 65536, StepSize: 1},
			{Class: "DISK_GB", Capacity: 900, Used: 40, MinUnit: 1, MaxUnit: 1000, StepSize: 10},
			{Class: "PCPU", Capacity: 8, Used: 3, MinUnit: 1, MaxUnit: 8, StepSize: 1},
		},
		Children: []schedule.Provider{{
			UUID: mustParse(t, gpu), Parent: id, Traits: []string{"CUSTOM_GPU"},
			Resources: []schedule.Resource{{Class: "VGPU", Capacity: 4, Used: 1, MinUnit: 1, MaxUnit: 4, StepSize: 1}},
		}},
		View: schedule.View{
			VCPUsTotal: 16, CPURatio: 4, VCPUsUsed: 2 + 8 + 3,
			TotalRAMMB: 65536, RAMRatio: 1.5, FreeRAMMB: 65536 - 512 - 4096 - 100,
			TotalDiskGB: 1000, DiskRatio: 1, DiskUsedMB: (100 + 40) * 1024, FreeDiskMB: (1000 - 100 - 40) * 1024,
			NumIOOps: 3 + 2, NumInstances: 7, HypervisorVersion: 6002003, FailedBuilds: 2,
		},
	}
	want.Facts = schedule.ParseFacts(schedule.FactTexts{HypervisorType: row.Host.HypervisorType, HypervisorHostname: "n1"})
	if got := hostOf("cell-uuid", row, true); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	amounts := []schedule.Amount{{Class: "VCPU", N: 8}, {Class: "MEMORY_MB", N: 4096 + 100}, {Class: "DISK_GB", N: 40}, {Class: "PCPU", N: 3}}
	if got := usageOf(RootOf(row.Host), row.Usage); !reflect.DeepEqual(got, amounts) {
		t.Errorf("usage is %+v", got)
	}
	if got := childUsageOf(row); !reflect.DeepEqual(got, []schedule.ProviderAmount{{Provider: mustParse(t, gpu), Class: "VGPU", N: 1}}) {
		t.Errorf("usage of children is %+v", got)
	}
}
