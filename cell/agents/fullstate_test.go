package agents

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	"cellgate/shard"
)

// stateOf is a good state of a host with a child provider and an instance.
func stateOf(host, service string) *agentv1.FullState {
	return &agentv1.FullState{
		BootId: bootA, Version: 1, AgentVersion: 3, HostUuid: host, ServiceHost: service, Nodename: service + ".example",
		Providers: []*agentv1.Provider{
			{Uuid: host, Name: service, Traits: []string{"HW_CPU_X86_AVX2"}, Inventories: []*agentv1.Inventory{
				{ResourceClass: "VCPU", Total: 8, AllocationRatio: 2},
				{ResourceClass: "MEMORY_MB", Total: 16384, Reserved: 512, AllocationRatio: 1},
				{ResourceClass: "DISK_GB", Total: 100, MaxUnit: 50, MinUnit: 2, StepSize: 2, AllocationRatio: 1},
			}},
			{Uuid: numaA, ParentUuid: host, Inventories: []*agentv1.Inventory{{ResourceClass: "VGPU", Total: 2, AllocationRatio: 1}}},
		},
		Aggregates: []*agentv1.Aggregate{{Uuid: aggA, Name: "rack", Metadata: map[string]string{"availability_zone": "west"}}},
	}
}

func withInstance(s *agentv1.FullState, usages ...*agentv1.Usage) *agentv1.FullState {
	s.Instances = append(s.Instances, &agentv1.Instance{InstanceUuid: consumerA, Usages: usages, ProjectId: "p", UserId: "u"})
	return s
}

func TestStateIsReadWithItsDefaults(t *testing.T) {
	in := withInstance(stateOf(hostA, "h1"), &agentv1.Usage{ProviderUuid: numaA, ResourceClass: "VGPU", Amount: 1})
	in.Disabled, in.DisabledReason, in.IoWorkload, in.FailedBuilds = true, "maintenance", 4, 5
	in.HypervisorType, in.HypervisorVersion, in.HostIp = "QEMU", 6002003, "192.0.2.1"
	if err := rpc.Validate(in); err != nil {
		t.Fatal(err)
	}
	got, err := readHost(in)
	if err != nil {
		t.Fatal(err)
	}
	want := &shard.PutHost{
		Host: shard.Host{
			UUID: hostA, ServiceHost: "h1", NodeName: "h1.example", Disabled: true, DisabledReason: "maintenance",
			IOWorkload: 4, FailedBuilds: 5, HypervisorType: "QEMU", HypervisorVersion: 6002003, HostIP: "192.0.2.1",
			AgentVersion: 3, BootID: bootA, StateVersion: 1,
			Providers: []shard.Provider{
				{UUID: hostA, Name: "h1", Traits: []string{"HW_CPU_X86_AVX2"}, Inventories: []shard.Inventory{
					{ResourceClass: "VCPU", Total: 8, MinUnit: 1, MaxUnit: 8, StepSize: 1, AllocationRatio: 2},
					{ResourceClass: "MEMORY_MB", Total: 16384, Reserved: 512, MinUnit: 1, MaxUnit: 16384, StepSize: 1, AllocationRatio: 1},
					{ResourceClass: "DISK_GB", Total: 100, MinUnit: 2, MaxUnit: 50, StepSize: 2, AllocationRatio: 1},
				}},
				{UUID: numaA, ParentUUID: hostA, Inventories: []shard.Inventory{
					{ResourceClass: "VGPU", Total: 2, MinUnit: 1, MaxUnit: 2, StepSize: 1, AllocationRatio: 1},
				}},
			},
			Aggregates: []shard.Aggregate{{UUID: aggA, Name: "rack", Metadata: map[string]string{"availability_zone": "west"}}},
		},
		Instances: []shard.Instance{{
			UUID: consumerA, ProjectID: "p", UserID: "u",
			Allocations: []shard.Used{{ProviderUUID: numaA, ResourceClass: "VGPU", Amount: 1}},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Each state breaks one rule, of the schema or between fields. The refusal names exactly that
// field.
func TestBadStatesAreRefusedByField(t *testing.T) {
	cases := map[string]func(*agentv1.FullState){
		"boot_id":                       func(s *agentv1.FullState) { s.BootId = "x" },
		"version":                       func(s *agentv1.FullState) { s.Version = 0 },
		"service_host":                  func(s *agentv1.FullState) { s.ServiceHost = "" },
		"io_workload":                   func(s *agentv1.FullState) { s.IoWorkload = -1 },
		"providers":                     func(s *agentv1.FullState) { s.Providers = nil },
		"providers[0].uuid":             func(s *agentv1.FullState) { s.HostUuid = hostB },
		"providers[0].parent_uuid":      func(s *agentv1.FullState) { s.Providers[0].ParentUuid = hostB },
		"providers[0].traits[0]":        func(s *agentv1.FullState) { s.Providers[0].Traits[0] = "lower case" },
		"providers[1].parent_uuid":      func(s *agentv1.FullState) { s.Providers[1].ParentUuid = hostB },
		"providers[1].uuid":             func(s *agentv1.FullState) { s.Providers[1].Uuid = hostA },
		"providers[0].inventories[0]":   func(s *agentv1.FullState) { s.Providers[0].Inventories[0].Reserved = 9 },
		"aggregates[1].uuid":            func(s *agentv1.FullState) { s.Aggregates = append(s.Aggregates, s.Aggregates[0]) },
		"instances[1].instance_uuid":    func(s *agentv1.FullState) { withInstance(withInstance(s)) },
		"instances[0].usages[0]":        func(s *agentv1.FullState) { withInstance(s, usage(hostA, "VGPU", 1)) },
		"instances[0].usages[1]":        func(s *agentv1.FullState) { withInstance(s, usage(hostA, "VCPU", 1), usage(hostA, "VCPU", 1)) },
		"instances[0].usages[0].amount": func(s *agentv1.FullState) { withInstance(s, usage(hostA, "VCPU", 0)) },
		"providers[0].inventories[0].total": func(s *agentv1.FullState) {
			s.Providers[0].Inventories[0].Total = -1
			s.Providers[0].Inventories[0].Reserved = -1
		},
		"providers[0].inventories[1].resource_class": func(s *agentv1.FullState) {
			s.Providers[0].Inventories[1].ResourceClass = "VCPU"
		},
		"providers[0].inventories[2].min_unit": func(s *agentv1.FullState) { s.Providers[0].Inventories[2].MinUnit = 60 },
		"providers[0].inventories[0].allocation_ratio": func(s *agentv1.FullState) {
			s.Providers[0].Inventories[0].AllocationRatio = 0
		},
	}
	for path, spoil := range cases {
		in := stateOf(hostA, "h1")
		spoil(in)
		err := rpc.Validate(in)
		if err == nil {
			_, err = readHost(in)
		}
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.InvalidRequest || f.Fields[0].Path != path {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestValidate_CapacityAboveTheGreatestAmount_Refused(t *testing.T) {
	for _, c := range []struct {
		total, reserved int32
		ratio           float64
		refused         bool
	}{
		{1 << 30, 0, 1.99, false},
		{1 << 30, 0, 2, true},
		{1<<31 - 1, 0, 1, false},
		{1<<31 - 1, 1, 1.1, true},
	} {
		s := stateOf(hostA, "h1")
		in := s.Providers[0].Inventories[1]
		in.Total, in.Reserved, in.AllocationRatio = c.total, c.reserved, c.ratio
		err := rpc.Validate(s)
		if (err != nil) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		const names = "providers[0].inventories[1]: capacity, (total - reserved) * allocation_ratio, must not exceed 2147483647"
		if err != nil && !strings.Contains(err.Error(), names) {
			t.Errorf("%+v: %v does not name the inventory", c, err)
		}
	}
}
