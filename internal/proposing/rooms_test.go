package proposing

import (
	"testing"

	"google.golang.org/protobuf/proto"

	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// Of hosts asked for a cell says what they have free, the inventories that is of, whatever
// claims took, and their aggregates, each once: unless two hosts say otherwise of one.
func TestRoomsHaveInventoriesAndAggregates(t *testing.T) {
	id := func(n byte) schedule.ID { return schedule.ID{15: n} }
	host := func(n byte, in ...schedule.Aggregate) schedule.Host {
		// 48 CPUs at ratio 4 of which 2 are reserved and 10 claimed, and so on.
		return schedule.Host{
			UUID: id(n), ServiceHost: "h", NodeName: "h", Aggregates: in,
			Resources: []schedule.Resource{
				{Class: "MEMORY_MB", Capacity: 15872, Used: 4096, MinUnit: 1, MaxUnit: 16384, StepSize: 1},
				{Class: "VCPU", Capacity: 184, Used: 10, MinUnit: 1, MaxUnit: 48, StepSize: 1},
				{Class: "DISK_GB", Capacity: 95, Used: 20, MinUnit: 1, MaxUnit: 100, StepSize: 1},
			},
			View: schedule.View{
				VCPUsTotal: 48, CPURatio: 4, VCPUsUsed: 12, TotalRAMMB: 16384, RAMRatio: 1, FreeRAMMB: 16384 - 512 - 4096,
				TotalDiskGB: 100, DiskRatio: 1, DiskUsedMB: 25 * 1024, FreeDiskMB: 75 * 1024,
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
	rooms, aggregates := roomsOf(e.Table(), asked)
	if len(rooms) != 3 || len(aggregates) != 3 {
		t.Fatalf("it says %v, %v", rooms, aggregates)
	}
	for i, want := range []struct {
		n  byte
		in []int32
	}{{3, []int32{0, 1}}, {1, []int32{2, 0}}, {2, nil}} {
		whole := &cellv1.HostRoom{HostUuid: id(want.n).String(), Whole: true, Aggregates: want.in, Rooms: []*cellv1.Room{
			{ResourceClass: "VCPU", Amount: 174, Total: 48, Reserved: 2, AllocationRatio: 4},
			{ResourceClass: "MEMORY_MB", Amount: 11776, Total: 16384, Reserved: 512, AllocationRatio: 1},
			{ResourceClass: "DISK_GB", Amount: 75, Total: 100, Reserved: 5, AllocationRatio: 1},
		}}
		if !proto.Equal(rooms[i], whole) {
			t.Errorf("it says %v, want %v", rooms[i], whole)
		}
	}
	for i, want := range []*cellgatev1.HostAggregate{
		{Uuid: "b"}, {Uuid: "a", Name: "rack1", Metadata: map[string]string{"availability_zone": "az2"}}, {Uuid: "a", Name: "rack1", Metadata: map[string]string{"availability_zone": "az1"}},
	} {
		if !proto.Equal(aggregates[i], want) {
			t.Errorf("aggregate %d is %v, want %v", i, aggregates[i], want)
		}
	}
}
