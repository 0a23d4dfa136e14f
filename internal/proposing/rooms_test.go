package proposing

import (
	"testing"

	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// Of hosts asked for a cell says what they have free, the inventories that is of, whatever
// claims took, and their names, their aggregates, each once: unless two hosts say otherwise of one, and
// their hypervisors, each once.
func TestRoomsHaveWhatHostsReport(t *testing.T) {
	id := func(n byte) schedule.ID { return schedule.ID{15: n} }
	host := func(n byte, in ...schedule.Aggregate) schedule.Host {
		// 48 CPUs at ratio 4 of which 2 are reserved and 10 claimed, and so on.
		return schedule.Host{
			UUID: id(n), ServiceHost: "h", NodeName: "h.example", Aggregates: in,
			Facts: schedule.ParseFacts(schedule.FactTexts{HypervisorType: "QEMU", SupportedInstances: `[["x86_64","kvm","hvm"]]`}),
			Resources: []schedule.Resource{
				{Class: "MEMORY_MB", Capacity: 15872, Used: 4096, MinUnit: 1, MaxUnit: 16384, StepSize: 1},
				{Class: "VCPU", Capacity: 184, Used: 10, MinUnit: 1, MaxUnit: 48, StepSize: 1},
				{Class: "DISK_GB", Capacity: 95, Used: 20, MinUnit: 1, MaxUnit: 100, StepSize: 1},
			},
			View: schedule.View{
				VCPUsTotal: 48, CPURatio: 4, VCPUsUsed: 12, TotalRAMMB: 16384, RAMRatio: 1, FreeRAMMB: 16384 - 512 - 4096,
				TotalDiskGB: 100, DiskRatio: 1, DiskUsedMB: 25 * 1024, FreeDiskMB: 75 * 1024, HypervisorVersion: int64(n / 3),
			},
		}
	}
	a := schedule.Aggregate{UUID: "a", Name: "rack1", Metadata: map[string]string{"availability_zone": "az1"}}
	b := schedule.Aggregate{UUID: "b"}
	other := schedule.Aggregate{UUID: "a", Name: "rack1", Metadata: map[string]string{"availability_zone": "az2"}}
	e := schedule.NewTable().Edit()
	for _, h := range []schedule.Host{host(1, a, b), host(2), host(3, b, other), host(4, a)} {
		e.PutHost(h)
	}
	var asked []byte
	for _, n := range []byte{3, 9, 1, 2} {
		one := id(n)
		asked = append(asked, one[:]...)
	}
	is := roomsOf(e.Table(), asked)
	if len(is.hosts) != 3 || len(is.aggregates) != 3 || len(is.hypervisors) != 2 {
		t.Fatalf("it says %v", is)
	}
	for i, want := range []struct {
		n    byte
		in   []int32
		runs int32
	}{{3, []int32{0, 1}, 0}, {1, []int32{2, 0}, 1}, {2, nil, 1}} {
		whole := &cellv1.HostRoom{HostUuid: id(want.n).String(), Whole: true, Aggregates: want.in, ServiceHost: "h", Nodename: "h.example", Hypervisor: want.runs, Rooms: []*cellv1.Room{
			{ResourceClass: "VCPU", Amount: 174, Total: 48, Reserved: 2, AllocationRatio: 4},
			{ResourceClass: "MEMORY_MB", Amount: 11776, Total: 16384, Reserved: 512, AllocationRatio: 1},
			{ResourceClass: "DISK_GB", Amount: 75, Total: 100, Reserved: 5, AllocationRatio: 1},
		}}
		if !proto.Equal(is.hosts[i], whole) {
			t.Errorf("it says %v, want %v", is.hosts[i], whole)
		}
	}
	for i, want := range []*cellgatev1.HostAggregate{
		{Uuid: "b"}, {Uuid: "a", Name: "rack1", Metadata: map[string]string{"availability_zone": "az2"}}, {Uuid: "a", Name: "rack1", Metadata: map[string]string{"availability_zone": "az1"}},
	} {
		if !proto.Equal(is.aggregates[i], want) {
			t.Errorf("aggregate %d is %v, want %v", i, is.aggregates[i], want)
		}
	}
	for i, version := range []int64{1, 0} {
		if want := (&cellv1.Hypervisor{Type: "QEMU", Version: version, SupportedInstances: `[["x86_64","kvm","hvm"]]`}); !proto.Equal(is.hypervisors[i], want) {
			t.Errorf("hypervisor %d is %v, want %v", i, is.hypervisors[i], want)
		}
	}
}
