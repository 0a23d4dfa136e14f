package shardtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
	"cellgate/shard"
)

// hardwareKind is a kind of hardware. A host has four of it, and an instance takes some.
type hardwareKind struct {
	name, filter, lack string
	guest              func(n int64) *hardware.Guest
}

var hardwareKinds = []hardwareKind{
	{"devices", hardware.FilterPCI, "product_id=20b5", func(n int64) *hardware.Guest {
		return &hardware.Guest{PCI: []hardware.PCIRequest{{Count: n, Specs: []hardware.PCISpec{{{Key: "product_id", Value: "20b5"}}}}}}
	}},
	{"dedicated CPUs", hardware.FilterNUMA, "dedicated CPUs", func(n int64) *hardware.Guest {
		return &hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{{Dedicated: int(n), MemoryMB: 1, Policy: hardware.CPUDedicated}}}}
	}},
	{"pages", hardware.FilterNUMA, "pages of 2048 KiB", func(n int64) *hardware.Guest {
		return &hardware.Guest{NUMA: &hardware.InstanceNUMA{Cells: []hardware.InstanceCell{{CPUs: 1, MemoryMB: 2 * n, PageSize: 2048}}}}
	}},
}

// hardwareHost is host n at state version v. It has four free devices, four dedicated CPUs (0 to 3) and four 2 MiB
// pages. The pinned CPUs are not free.
func hardwareHost(n int, v uint64, pinned ...int) *shard.PutHost {
	p := BigHost(n)
	p.Host.StateVersion = v
	pins, _ := json.Marshal(append([]int{}, pinned...))
	p.Host.Facts = &shard.Facts{
		PCIStats: `[{"vendor_id": "10de", "product_id": "20b5", "count": 4}]`,
		NUMATopology: `{"nova_object.name": "NUMATopology", "nova_object.data": {"cells": [{"nova_object.data": {
			"id": 0, "cpuset": [4, 5, 6, 7], "pcpuset": [0, 1, 2, 3], "pinned_cpus": ` + string(pins) + `, "siblings": [[0], [1], [2], [3], [4], [5], [6], [7]],
			"socket": 0, "memory": 4096, "cpu_usage": 0, "memory_usage": 0, "network_metadata": null, "mempages": [
				{"nova_object.data": {"size_kb": 4, "total": 1048576, "used": 0, "reserved": 0}},
				{"nova_object.data": {"size_kb": 2048, "total": 4, "used": 0, "reserved": 0}}]}}]}}`,
	}
	return p
}

// takes makes claim n, which takes count of this kind.
func (k *hardwareKind) takes(n, host int, count int64) *shard.NewClaim {
	c := NewClaim(n, host, 1)
	judged := hardware.Check{Guest: *k.guest(count), JudgeNUMA: true, JudgePCI: true}
	c.Guest.Hardware = judged.Encode()
	return c
}

// full checks that a host refuses an operation because it lacks this kind.
func (s *suite) full(k *hardwareKind, op any) {
	s.Helper()
	r := s.refused(op, fault.NoValidHost).Refusal
	if r.Filter != k.filter || r.Detail != k.lack || !strings.Contains(r.Message, k.lack) || !strings.Contains(r.Message, "host-") {
		s.Fatalf("refused with %+v, want %s for %s of the host", r, k.filter, k.lack)
	}
}

// expiredHardware makes claim n of two, lets its lease end and expires it.
func (s *suite) expiredHardware(k *hardwareKind, n, host int) {
	s.Helper()
	c := k.takes(n, host, 2)
	c.TTL = time.Second
	s.do(c)
	s.Advance(2 * time.Second)
	s.do(expire(*Ref(n)))
	if c := s.find(n); c.State != shard.Expired || c.Guest.Assigned != nil {
		s.Fatalf("claim %d is %s with %+v", n, c.State, c.Guest.Assigned)
	}
}

func hardwareClauses() []clause {
	clauses := []clause{
		{name: "I1_TheLastDeviceIsGivenToOne", test: theLastDevice},
		{name: "I1_ConcurrentClaimsNeverShareADevice", test: devicesUnderConcurrency},
		{name: "AReportThatPinsAssignedCPUsAssignsOthers", test: func(s *suite) {
			k := &hardwareKinds[1]
			s.do(hardwareHost(1, 1))
			first := s.do(k.takes(1, 1, 2)).Claim.Guest.Assigned.Cells[0].Pinned
			second := s.do(k.takes(2, 1, 2)).Claim.Guest.Assigned.Cells[0].Pinned
			// The report shows instance 1 pinned to the CPUs that claim 2 was assigned.
			p := hardwareHost(1, 2, second...)
			p.Instances = state(2, 8, map[int]int64{1: 1}).Instances
			s.do(p)
			c := s.find(2)
			if got := c.Guest.Assigned.Cells[0].Pinned; !slices.Equal(got, first) {
				s.Errorf("assigned %v, want %v", got, first)
			}
			s.full(k, k.takes(3, 1, 1))
			// The report pins all CPUs. The claim has none until a report frees some.
			s.do(hardwareHost(1, 3, 0, 1, 2, 3))
			if c := s.find(2); c.State != shard.Pending || c.Guest.Assigned != nil {
				s.Errorf("the claim is %s with %+v", c.State, c.Guest.Assigned)
			}
			s.do(hardwareHost(1, 4, 0, 1))
			if got := s.find(2).Guest.Assigned.Cells[0].Pinned; !slices.Equal(got, []int{2, 3}) {
				s.Errorf("assigned %v", got)
			}
		}},
		{name: "I1_DevicesAreOfTheProvidersThatPlacementGave", test: devicesOfProviders},
		{name: "WhatCannotBeReadIsRefused", test: func(s *suite) {
			s.do(hardwareHost(1, 1))
			c := NewClaim(1, 1, 1)
			c.Guest.Hardware = []byte("{")
			s.refused(c, fault.InvalidRequest)
			p := hardwareHost(1, 2)
			p.Host.Facts.PCIStats = `[{"count": 4}]`
			s.do(p)
			s.full(&hardwareKinds[0], hardwareKinds[0].takes(1, 1, 1))
		}},
	}
	for _, c := range []struct {
		name string
		test func(s *suite, k *hardwareKind)
	}{
		{"I1_ALateConfirmTakesNoDevicesOfOthers", func(s *suite, k *hardwareKind) {
			s.do(hardwareHost(1, 1))
			s.expiredHardware(k, 1, 1)
			s.apply(opOf(k.takes(2, 1, 2)), opOf(k.takes(3, 1, 2)), opOf(confirm(*Ref(2))), opOf(confirm(*Ref(3))))
			for _, reinstate := range []bool{false, true} {
				ref := confirm(*Ref(1))
				ref.Reinstate = reinstate
				if r := s.refused(ref, fault.ClaimExpired).Refusal; !strings.Contains(r.Message, k.lack) {
					s.Errorf("refused: %s", r.Message)
				}
			}
			s.state(1, shard.Expired)
			s.do(release(*Ref(3)), confirm(*Ref(1)))
			s.full(k, k.takes(4, 1, 1))
		}},
		{"I1_AClaimAndItsEndInOneBatch", func(s *suite, k *hardwareKind) {
			s.do(hardwareHost(1, 1), hardwareHost(2, 1))
			c := k.takes(1, 1, 2)
			c.TTL = time.Second
			s.do(c, k.takes(5, 2, 4))
			s.Advance(2 * time.Second)
			a := s.apply(opOf(expire(*Ref(1))), opOf(k.takes(2, 1, 3)), opOf(confirm(*Ref(1))), opOf(k.takes(3, 1, 1)), opOf(swapTo(3, 2)), opOf(k.takes(4, 1, 1)))
			for i, refused := range []bool{false, false, true, false, true, true} {
				if o := a.Outcomes[i]; (o.Refusal != nil) != refused {
					s.Errorf("operation %d: %+v", i, o.Refusal)
				}
			}
		}},
		{"I1_ASwapTakesNoDevicesOfOthers", func(s *suite, k *hardwareKind) {
			s.do(hardwareHost(1, 1), hardwareHost(2, 1), k.takes(1, 1, 2), k.takes(2, 2, 3))
			s.full(k, swapTo(1, 2))
			s.do(release(*Ref(2)))
			if c := s.do(swapTo(1, 2)).Claim; c.HostUUID != HostID(2) || c.Guest.Assigned == nil {
				s.Errorf("the claim is %+v", c)
			}
			s.do(k.takes(3, 1, 4))
			s.full(k, k.takes(4, 2, 3))
			// An expired claim comes back by a swap, even to its own host.
			s.do(k.takes(5, 2, 2))
			s.Advance(2 * time.Minute)
			s.do(expire(*Ref(1)), k.takes(6, 2, 1))
			s.full(k, swapTo(1, 2))
			s.do(release(*Ref(6)), swapTo(1, 2))
		}},
		{"I1_AMoveTakesDevicesBesideItsSource", func(s *suite, k *hardwareKind) {
			move := func(n, from, host int, count int64) *shard.NewClaim {
				c := k.takes(n, host, count)
				c.ConsumerUUID, c.Moves = ConsumerID(from), ClaimID(from)
				return c
			}
			s.do(hardwareHost(1, 1), hardwareHost(2, 1), k.takes(1, 1, 3), confirm(*Ref(1)))
			s.full(k, move(2, 1, 1, 3))
			s.do(move(2, 1, 2, 3))
			s.full(k, k.takes(3, 2, 2))
			s.full(k, k.takes(3, 1, 2))
			s.do(confirm(refOf(2, 1)))
			s.full(k, k.takes(3, 2, 2))
			s.do(k.takes(3, 1, 4))
		}},
	} {
		for i := range hardwareKinds {
			k := &hardwareKinds[i]
			clauses = append(clauses, clause{name: c.name + "/" + k.name, test: func(s *suite) { c.test(s, k) }})
		}
	}
	return clauses
}

// devicesOfProviders tests two hosts with two devices each, where each device has its own provider.
func devicesOfProviders(s *suite) {
	provider := func(host, n int) schedule.ID { return schedule.ID{0: byte(host), 15: byte(n)} }
	pool := func(host, n int) string {
		return fmt.Sprintf(`{"vendor_id": "10de", "product_id": "20b5", "count": 1, "rp_uuid": %q}`, provider(host, n))
	}
	for host := 1; host <= 2; host++ {
		p := hardwareHost(host, 1)
		p.Host.Facts.PCIStats = "[" + pool(host, 1) + "," + pool(host, 2) + "]"
		s.do(p)
	}
	mapped := func(host, n int) []schedule.Mapping {
		return []schedule.Mapping{{Suffix: "r-0", Providers: []schedule.ID{provider(host, n)}}}
	}
	takes := func(n, host, device int) *shard.NewClaim {
		k := hardwareKinds[0]
		guest := k.guest
		k.guest = func(count int64) *hardware.Guest {
			asked := guest(count)
			asked.PCI[0].Groups = []string{"r-0"}
			return schedule.WithProviders(asked, mapped(host, device))
		}
		return k.takes(n, host, 1)
	}
	has := func(c *shard.Claim, host, device int) {
		s.Helper()
		if a := c.Guest.Assigned; a == nil || len(a.Devices) != 1 || !strings.Contains(a.Devices[0].Pool, "rp_uuid="+provider(host, device).String()) {
			s.Errorf("claim %s is assigned %+v, want the device of provider %s", c.ClaimID, a, provider(host, device))
		}
	}
	has(s.do(takes(1, 1, 2)).Claim, 1, 2)
	s.full(&hardwareKinds[0], takes(2, 1, 2))
	has(s.do(takes(2, 1, 1)).Claim, 1, 1)
	// An alternate host has other providers. Later reports and confirms keep to the providers of the swap.
	swap := swapTo(2, 2)
	s.full(&hardwareKinds[0], swap)
	swap.Mappings = mapped(2, 2)
	has(s.do(swap).Claim, 2, 2)
	s.full(&hardwareKinds[0], takes(3, 2, 2))
	p := hardwareHost(2, 2)
	p.Host.Facts.PCIStats = "[" + pool(2, 1) + "]"
	s.do(p)
	if c := s.find(2); c.Guest.Assigned != nil {
		s.Errorf("the device of its provider is gone, and the claim is assigned %+v", c.Guest.Assigned)
	}
	p.Host.StateVersion, p.Host.Facts.PCIStats = 3, "["+pool(2, 1)+","+pool(2, 2)+"]"
	s.do(p)
	has(s.find(2), 2, 2)
}

// theLastDevice lets several lanes claim, or swap to, a host's last device at the same moment.
func theLastDevice(s *suite) {
	const lanes = 4
	r := s.openLanes(lanes)
	for round := range 4 * len(hardwareKinds) {
		k := &hardwareKinds[round%len(hardwareKinds)]
		at := 10 * round
		s.do(hardwareHost(at, 1), k.takes(at, at, 3), hardwareHost(at+1, 1))
		for w := 1; w < lanes; w += 2 {
			s.do(k.takes(at+1+w, at+1, 1))
		}
		out := s.race(r, func(w int) any {
			if w%2 == 1 {
				return swapTo(at+1+w, at)
			}
			return k.takes(at+1+w, at, 1)
		})
		s.oneWins(out)
		for _, o := range out {
			if r := o.Refusal; r != nil && (r.Kind != fault.NoValidHost || r.Filter != k.filter) {
				s.Errorf("the last of %s: %+v", k.name, r)
			}
		}
	}
}

// devicesUnderConcurrency lets lanes claim, confirm, swap and release at random on a few hosts that sometimes report
// anew. Whoever loads the shard never finds a device, page or dedicated CPU taken twice (Overfull).
func devicesUnderConcurrency(s *suite) {
	const hosts, lanes, steps = 3, 4, 60
	for h := range hosts {
		s.do(hardwareHost(h, 1))
	}
	var writers sync.WaitGroup
	for w := range lanes {
		l := s.openLane(fmt.Sprintf("lane-%d", w))
		s.seed()
		rng := rand.New(rand.NewPCG(uint64(w), 2))
		writers.Go(func() {
			var mine []int
			for i := range steps {
				var op shard.Op
				some := func() int { return mine[rng.IntN(len(mine))] }
				switch n := w*steps + i; {
				case len(mine) == 0 || rng.IntN(2) == 0:
					k := &hardwareKinds[rng.IntN(len(hardwareKinds))]
					op = opOf(k.takes(n, rng.IntN(hosts), 1+rng.Int64N(3)))
					mine = append(mine, n)
				case rng.IntN(8) == 0:
					op = opOf(hardwareHost(rng.IntN(hosts), uint64(2+n), rng.Perm(4)[:rng.IntN(3)]...))
				default:
					op = []shard.Op{opOf(release(*Ref(some()))), opOf(confirm(*Ref(some()))), opOf(swapTo(some(), rng.IntN(hosts)))}[rng.IntN(3)]
				}
				if _, err := l.Apply(s.ctx, []shard.Op{op}); err != nil {
					s.Errorf("Apply: %v", err)
					return
				}
				if i%8 == 0 {
					for _, wrong := range s.rows().Overfull() {
						s.Error(wrong)
					}
				}
			}
		})
	}
	writers.Wait()
}

// hardwareConflicts reads a host's report naively. It returns what more than one claim has, and what no claim may have.
func hardwareConflicts(h *shard.Host, claims []*shard.Claim) (wrong []string) {
	if h.Facts == nil {
		return nil
	}
	var pools []struct{ Count int64 }
	var numa struct {
		Data struct {
			Cells []struct {
				Data struct {
					ID       int64
					CPUs     []int `json:"pcpuset"`
					Pinned   []int `json:"pinned_cpus"`
					MemPages []struct {
						Data struct {
							Size  int64 `json:"size_kb"`
							Total int64
							Used  int64
						} `json:"nova_object.data"`
					}
				} `json:"nova_object.data"`
			}
		} `json:"nova_object.data"`
	}
	numaText, pciText := h.HardwareTexts()
	if json.Unmarshal([]byte(pciText), &pools) != nil || json.Unmarshal([]byte(numaText), &numa) != nil {
		return nil // these tests report no such facts
	}
	var free, taken int64
	for _, p := range pools {
		free += p.Count
	}
	type cpu struct {
		cell int64
		cpu  int
	}
	type page struct{ cell, size int64 }
	cpus, pages := map[cpu]bool{}, map[page]int64{}
	for _, c := range numa.Data.Cells {
		for _, n := range c.Data.CPUs {
			cpus[cpu{c.Data.ID, n}] = true
		}
		for _, n := range c.Data.Pinned {
			delete(cpus, cpu{c.Data.ID, n})
		}
		for _, p := range c.Data.MemPages {
			pages[page{c.Data.ID, p.Data.Size}] += p.Data.Total - p.Data.Used
		}
	}
	for _, c := range claims {
		for _, d := range c.Guest.Assigned.Devices {
			taken += d.Count
		}
		for _, cell := range c.Guest.Assigned.Cells {
			for _, n := range cell.Pinned {
				at := cpu{cell.ID, n}
				if !cpus[at] {
					wrong = append(wrong, fmt.Sprintf("I1: claim %s has CPU %d of cell %d of host %s, which is not free", c.ClaimID, n, cell.ID, h.UUID))
				}
				delete(cpus, at)
			}
			if cell.PageSize == 0 {
				continue
			}
			at := page{cell.ID, cell.PageSize}
			if pages[at] -= cell.MemoryMB * 1024 / cell.PageSize; pages[at] < 0 {
				wrong = append(wrong, fmt.Sprintf("I1: claim %s takes pages of %d KiB of cell %d of host %s beyond those that there are", c.ClaimID, cell.PageSize, cell.ID, h.UUID))
			}
		}
	}
	if taken > max(0, free) {
		wrong = append(wrong, fmt.Sprintf("I1: claims have %d devices of host %s, of %d free", taken, h.UUID, free))
	}
	return wrong
}
