package agent

import (
	"fmt"
	"math/rand/v2"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// size is the usage of one existing instance.
type size struct{ vcpus, memoryMB, diskGB int32 }

var sizes = []size{
	{1, 2048, 20},
	{2, 4096, 40},
	{4, 8192, 80},
	{4, 16384, 80},
	{8, 16384, 160},
	{8, 65536, 160},
	{16, 65536, 320},
	{32, 131072, 640},
}

// Existing instances fill at most half of a host, and only on general and fast hosts: rare resources
// stay free for the bundled requests.
const (
	mostUsedShare    = 0.5
	hostsWithInUse   = 0.6
	mostInstances    = 12
	lastSlotWithUse  = 20
	projectsInACloud = 12
)

// instances that exist on the host at p before cellgate knows it. Each fits the inventories' units, and
// together they stay below mostUsedShare of the capacity.
func (p place) instances(root string, inventories []*agentv1.Inventory, dice *rand.Rand) []*agentv1.Instance {
	if p.full() || p.slot > lastSlotWithUse || dice.Float64() >= hostsWithInUse {
		return nil
	}
	share := mostUsedShare * dice.Float64()
	free := make(map[string]int32, len(inventories))
	for _, i := range inventories {
		free[i.GetResourceClass()] = int32(share * float64(i.GetTotal()-i.GetReserved()) * i.GetAllocationRatio())
	}
	var all []*agentv1.Instance
	for range mostInstances {
		s := sizes[dice.IntN(len(sizes))]
		id, project := seededUUID(dice), dice.IntN(projectsInACloud)
		if s.vcpus > free["VCPU"] || s.memoryMB > free["MEMORY_MB"] || s.diskGB > free["DISK_GB"] {
			continue
		}
		free["VCPU"] -= s.vcpus
		free["MEMORY_MB"] -= s.memoryMB
		free["DISK_GB"] -= s.diskGB
		all = append(all, &agentv1.Instance{
			InstanceUuid: id,
			ProjectId:    fmt.Sprintf("%032x", 0x5a000000+project),
			UserId:       fmt.Sprintf("%032x", 0x5b000000+project),
			Usages: []*agentv1.Usage{
				{ProviderUuid: root, ResourceClass: "VCPU", Amount: s.vcpus},
				{ProviderUuid: root, ResourceClass: "MEMORY_MB", Amount: s.memoryMB},
				{ProviderUuid: root, ResourceClass: "DISK_GB", Amount: s.diskGB},
			},
		})
	}
	return all
}
