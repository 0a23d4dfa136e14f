package agent

import (
	"fmt"
	"math/rand/v2"

	agentv1 "cellgate/proto/cellgate/agent/v1"
)

// fullHostLeavesMB is the memory that the full host leaves unreserved.
const fullHostLeavesMB = 512

// Hypervisor versions in use, in Nova's form: 6002003 is 6.2.3.
var hypervisorVersions = []int32{6002003, 7002001, 8002002, 9001000}

// Simulate returns the state of host index (from 0) of a cell. Equal seed, cell and index give an equal
// host. The caller sets boot id and version.
func Simulate(seed uint64, cell string, index int) *agentv1.FullState {
	p := placeOf(cell, index)
	dice := p.dice(seed)
	root := seededUUID(dice)
	m := p.draw(dice)
	inventories := p.inventories(m, dice)
	s := &agentv1.FullState{
		Cell:         cell,
		AgentVersion: Version,
		HostUuid:     root,
		ServiceHost:  p.name(),
		Nodename:     p.name() + ".sim.example",
		Disabled:     p.disabled(),
		Providers: []*agentv1.Provider{{
			Uuid:        root,
			Name:        p.name() + ".sim.example",
			Traits:      p.traits(m),
			Inventories: inventories,
		}},
		Aggregates:        p.aggregates(),
		HypervisorType:    "QEMU",
		HypervisorVersion: hypervisorVersions[dice.IntN(len(hypervisorVersions))],
		HostIp:            fmt.Sprintf("10.%d.%d.%d", 64+p.rack/250, p.rack%250, p.slot+10),
	}
	s.Facts = p.facts(m)
	if s.Disabled {
		s.DisabledReason = "planned maintenance"
	}
	s.Instances = p.instances(root, inventories, dice)
	if dice.IntN(20) == 0 { // one host in twenty builds, snapshots or migrates
		s.IoWorkload = 1 + dice.Int32N(4)
	}
	return s
}

// inventories of a host of model m at p.
func (p place) inventories(m model, dice *rand.Rand) []*agentv1.Inventory {
	inv := func(class string, total, reserved int32, ratio float64) *agentv1.Inventory {
		return &agentv1.Inventory{
			ResourceClass: class, Total: total, Reserved: reserved,
			MinUnit: 1, MaxUnit: total, StepSize: 1, AllocationRatio: ratio,
		}
	}
	memoryReserved := 2048 << dice.IntN(3)
	if p.full() {
		memoryReserved = int(m.memoryMB) - fullHostLeavesMB
	}
	all := []*agentv1.Inventory{
		inv("VCPU", m.threads, dice.Int32N(3), m.cpuRatio),
		inv("MEMORY_MB", m.memoryMB, int32(memoryReserved), 1),
		inv("DISK_GB", m.diskGB, 10*dice.Int32N(6), 1),
	}
	if m.extra != "" {
		x := inv(m.extra, m.extraHas, 0, 1)
		x.MaxUnit = m.extraMost
		all = append(all, x)
	}
	return all
}
