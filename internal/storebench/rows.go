package storebench

import (
	"context"
	"fmt"
	"slices"

	"cellgate/shard"
)

const (
	// Fits is how many claims fit on an empty host.
	Fits = 50
	// vcpus, memoryMB and diskGB are the resources of a claim.
	vcpus, memoryMB, diskGB = 2, 4096, 20
)

func hostUUID(n int) string { return fmt.Sprintf("68000000-0000-4000-8000-%012x", n) }

// newHost registers a host on which only VCPUs can run out.
func newHost(n int) shard.Op {
	id, name := hostUUID(n), fmt.Sprintf("host-%04d", n)
	h := shard.Host{
		UUID: id, ServiceHost: name, NodeName: name + ".example.org",
		BootID: "boot-1", StateVersion: 1, HypervisorType: "QEMU", HypervisorVersion: 8_002_000,
		Facts:     &shard.Facts{CPUInfo: `{"arch": "x86_64"}`, SupportedInstances: `[["x86_64", "kvm", "hvm"]]`, Stats: `{"rack": "r1"}`},
		Providers: []shard.Provider{{UUID: id, Name: name, Traits: []string{"HW_CPU_X86_AVX2"}}},
	}
	for class, total := range map[string]int64{"VCPU": vcpus * Fits, "MEMORY_MB": shard.MaxAmount, "DISK_GB": shard.MaxAmount} {
		h.Providers[0].Inventories = append(h.Providers[0].Inventories, shard.Inventory{
			ResourceClass: class, Total: total, MinUnit: 1, MaxUnit: shard.MaxAmount, StepSize: 1, AllocationRatio: 1,
		})
	}
	return shard.Op{PutHost: &shard.PutHost{Host: h}}
}

// newClaim makes claim n, of consumer n, with times as many VCPUs as a claim.
func newClaim(n, host int, times int64) shard.Op {
	id := hostUUID(host)
	return shard.Op{Claim: &shard.NewClaim{
		ClaimID: fmt.Sprintf("claim-%08d", n), ConsumerUUID: fmt.Sprintf("69000000-0000-4000-8000-%012x", n), HostUUID: id,
		Allocations: []shard.Used{
			{ProviderUUID: id, ResourceClass: "VCPU", Amount: times * vcpus},
			{ProviderUUID: id, ResourceClass: "MEMORY_MB", Amount: memoryMB},
			{ProviderUUID: id, ResourceClass: "DISK_GB", Amount: diskGB},
		},
		TTL: shard.DefaultClaimTTL, ProjectID: "project-1", UserID: "user-1",
		RequestID: fmt.Sprintf("req-%d", n), Fingerprint: []byte{1, 2, 3}, DecisionID: "cell1.0",
		Guest: &shard.Guest{FlavorID: "42", Image: []byte{0, 4}},
	}}
}

// check lists what is wrong with the rows of a store after made claims: lost or duplicate claims, usage
// that is not the sum of its claims, and use beyond capacity.
func check(ctx context.Context, from shard.Synchronizer, made int) (wrong []string, err error) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	type key struct{ host, provider, class string }
	room, sum, there := map[key]int64{}, map[key]int64{}, 0
	usages, live, consumers := []*shard.Usage{}, map[string]int32{}, map[string]string{}
	_, err = from.Load(ctx, func(c shard.Change) error {
		switch {
		case c.Host != nil:
			for _, p := range c.Host.Providers {
				for _, inv := range p.Inventories {
					room[key{c.Host.UUID, p.UUID, inv.ResourceClass}] = inv.Free(0)
				}
			}
		case c.Usage != nil:
			usages = append(usages, c.Usage)
		case c.Claim != nil:
			there++
			live[c.Claim.HostUUID]++
			if other := consumers[c.Claim.ConsumerUUID]; other != "" {
				bad("consumer %s has claims %s and %s", c.Claim.ConsumerUUID, other, c.Claim.ClaimID)
			}
			consumers[c.Claim.ConsumerUUID] = c.Claim.ClaimID
			for _, a := range c.Claim.Allocations {
				sum[key{c.Claim.HostUUID, a.ProviderUUID, a.ResourceClass}] += a.Amount
			}
		}
		return nil
	})
	if there != made {
		bad("%d claims were made, and %d are there", made, there)
	}
	for _, u := range usages {
		if n := live[u.HostUUID]; u.Pending+u.Confirmed != n {
			bad("host %s counts %d claims and has %d", u.HostUUID, u.Pending+u.Confirmed, n)
		}
		for _, a := range u.Used {
			k := key{u.HostUUID, a.ProviderUUID, a.ResourceClass}
			if a.Amount != sum[k] {
				bad("host %s has %d %s in use, and its claims take %d", u.HostUUID, a.Amount, a.ResourceClass, sum[k])
			}
			delete(sum, k)
			if a.Amount > room[k] {
				bad("host %s has %d %s in use, of %d", u.HostUUID, a.Amount, a.ResourceClass, room[k])
			}
		}
	}
	for k, n := range sum {
		bad("claims on host %s take %d %s, and none is in use", k.host, n, k.class)
	}
	slices.Sort(wrong)
	return wrong, err
}
