package agents

import (
	"errors"
	"fmt"

	"cellgate/internal/fault"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

const (
	hostA     = "aaaaaaaa-0000-4000-8000-000000000001"
	hostB     = "aaaaaaaa-0000-4000-8000-000000000002"
	consumerA = "cccccccc-0000-4000-8000-000000000001"
	bootA     = "bbbbbbbb-0000-4000-8000-000000000001"
	numaA     = "aaaaaaaa-0000-4000-8000-00000000aa01"
	aggA      = "eeeeeeee-0000-4000-8000-000000000001"
)

func hostUUID(n int) string     { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n) }
func consumerUUID(n int) string { return fmt.Sprintf("cccccccc-0000-4000-8000-%012d", n) }

func asFault(err error, f **fault.Error) bool { return errors.As(err, f) }

// plainState is a host with VCPU, MEMORY_MB and DISK_GB and nothing else.
func plainState(n int, vcpus int32) *agentv1.FullState {
	uuid := hostUUID(n)
	service := fmt.Sprintf("host-%05d", n)
	return &agentv1.FullState{
		Cell:   "cell1",
		BootId: bootA, Version: 1, AgentVersion: 1, HostUuid: uuid, ServiceHost: service, Nodename: service,
		Providers: []*agentv1.Provider{{Uuid: uuid, Inventories: []*agentv1.Inventory{
			{ResourceClass: "VCPU", Total: vcpus, AllocationRatio: 1},
			{ResourceClass: "MEMORY_MB", Total: 1 << 20, AllocationRatio: 1},
			{ResourceClass: "DISK_GB", Total: 1 << 20, AllocationRatio: 1},
		}}},
	}
}

func usage(provider, class string, amount int32) *agentv1.Usage {
	return &agentv1.Usage{ProviderUuid: provider, ResourceClass: class, Amount: amount}
}
