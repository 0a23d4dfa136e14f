package shardtest

import (
	"fmt"
	"time"

	"cellgate/shard"
)

// Class is the resource class that the suite's claims ask for.
const Class = "VCPU"

// ID makes a uuid from a kind and a number. Equal arguments give equal uuids.
func ID(kind byte, n int) string {
	return fmt.Sprintf("%02x000000-0000-4000-8000-%012x", kind, n)
}

// HostID is the uuid of a host, and of its root provider.
func HostID(n int) string { return ID('h', n) }

// ConsumerID is the uuid of an instance.
func ConsumerID(n int) string { return ID('i', n) }

// ClaimID names a claim.
func ClaimID(n int) string { return fmt.Sprintf("claim-%08d", n) }

// GroupID is the uuid of a server group.
func GroupID(n int) string { return ID('g', n) }

// ServiceHost is the name of a host's service.
func ServiceHost(n int) string { return fmt.Sprintf("host-%04d", n) }

// NewHost makes the registration of host n with the given VCPU and no instances.
func NewHost(n int, vcpus int64) *shard.PutHost {
	return &shard.PutHost{Host: shard.Host{
		UUID: HostID(n), ServiceHost: ServiceHost(n), NodeName: ServiceHost(n) + ".example.org",
		BootID: "boot-1", StateVersion: 1, HypervisorType: "QEMU", HypervisorVersion: 8_002_000,
		Facts: &shard.Facts{CPUInfo: `{"arch": "x86_64"}`, SupportedInstances: `[["x86_64", "kvm", "hvm"]]`, Stats: `{"rack": "r1"}`},
		Providers: []shard.Provider{{
			UUID: HostID(n), Name: ServiceHost(n), Traits: []string{"HW_CPU_X86_AVX2"},
			Inventories: []shard.Inventory{{
				ResourceClass: Class, Total: vcpus, MinUnit: 1, MaxUnit: max(1, vcpus), StepSize: 1, AllocationRatio: 1,
			}},
		}},
	}}
}

// BigHost makes the registration of a host on which everything fits.
func BigHost(n int) *shard.PutHost {
	p := NewHost(n, shard.MaxAmount)
	for _, class := range []string{"MEMORY_MB", "DISK_GB"} {
		p.Host.Providers[0].Inventories = append(p.Host.Providers[0].Inventories, shard.Inventory{
			ResourceClass: class, Total: shard.MaxAmount, MinUnit: 1, MaxUnit: shard.MaxAmount, StepSize: 1, AllocationRatio: 1,
		})
	}
	return p
}

// NewClaim makes claim n of consumer n on a host, for vcpus and a minute.
func NewClaim(n, host int, vcpus int64) *shard.NewClaim {
	return &shard.NewClaim{
		ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(n), HostUUID: HostID(host),
		Allocations: []shard.Used{{ProviderUUID: HostID(host), ResourceClass: Class, Amount: vcpus}},
		TTL:         time.Minute, ProjectID: "project-1", UserID: "user-1",
		RequestID: fmt.Sprintf("req-%d", n), Fingerprint: []byte{1, 2, 3}, DecisionID: "cell1.0",
		Guest: &shard.Guest{FlavorID: "42", Image: []byte{0, 4}},
	}
}

// BigClaim makes a claim of three classes on a BigHost.
func BigClaim(n, host int) shard.Op {
	c := NewClaim(n, host, 2)
	c.TTL = shard.DefaultClaimTTL
	c.Allocations = append(c.Allocations,
		shard.Used{ProviderUUID: HostID(host), ResourceClass: "MEMORY_MB", Amount: 4096},
		shard.Used{ProviderUUID: HostID(host), ResourceClass: "DISK_GB", Amount: 20},
	)
	return shard.Op{Claim: c}
}

// Ref names claim n of consumer n.
func Ref(n int) *shard.ClaimRef {
	return &shard.ClaimRef{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(n)}
}
