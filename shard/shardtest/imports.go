package shardtest

import (
	"slices"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// imported makes import n of host 1, as Nova's tables have the host.
func imported(n uint64, vcpus int64, instances map[int]int64) *shard.PutHost {
	p := state(n, vcpus, instances)
	p.Host.Imported, p.Host.BootID = true, "import-1"
	return p
}

func importClauses() []clause {
	host := func(s *suite) *shard.Host {
		s.Helper()
		return s.rows().Hosts[HostID(1)]
	}
	return []clause{
		{name: "AnImportAdoptsConfirmsAndReleasesAsAReport", test: func(s *suite) {
			s.gives(imported(1, 8, map[int]int64{1: 1, 2: 2}), shard.Outcome{Adopted: 2})
			if h := host(s); !h.Imported || h.AgentVersion != 0 {
				s.Errorf("host is %+v", h)
			}
			s.do(NewClaim(5, 1, 1))
			s.gives(imported(2, 8, map[int]int64{1: 1, 5: 1}), shard.Outcome{Unchanged: true, Confirmed: 1, Released: 1})
			s.state(5, shard.Confirmed)
			s.used(1, 2)
			s.gives(imported(3, 8, map[int]int64{1: 1}), shard.Outcome{Unchanged: true, Released: 1})
			s.state(5, shard.Released)
			s.used(1, 1)
			s.do(NewClaim(6, 1, 1), state(1, 8, map[int]int64{1: 1, 6: 1}))
			s.gives(state(2, 8, map[int]int64{1: 1}), shard.Outcome{})
			s.state(6, shard.Confirmed)
		}},
		// Nova claims an alternate in Placement alone, and builds the instance there.
		{name: "AnInstanceThatWasBuiltOnAnAlternateLeavesItsPendingClaim", test: func(s *suite) {
			instance := shard.Instance{UUID: ConsumerID(1), Allocations: on(2, 2).Allocations}
			onAlternate := func(at time.Time) *shard.PutHost {
				p := importedHost(2, 8, instance)
				p.InstancesAt = at
				return p
			}
			s.do(importedHost(1, 8), importedHost(2, 8), NewClaim(1, 1, 2))
			s.gives(onAlternate(s.find(1).UpdatedAt.Add(-time.Second)), shard.Outcome{Unchanged: true, ClaimedElsewhere: 1})
			s.state(1, shard.Pending)
			s.gives(onAlternate(s.find(1).UpdatedAt), shard.Outcome{Unchanged: true, Released: 1, Adopted: 1})
			s.state(1, shard.Released)
			s.used(1, 0)
			s.used(2, 2)
			s.do(NewClaim(2, 1, 1), importedHost(1, 8, shard.Instance{UUID: ConsumerID(2), Allocations: on(1, 1).Allocations}))
			s.gives(importedHost(2, 8, instance, shard.Instance{UUID: ConsumerID(2), Allocations: on(2, 1).Allocations}), shard.Outcome{Unchanged: true, ClaimedElsewhere: 1})
			s.state(2, shard.Confirmed)
		}},
		{name: "I1_AnImportCountsDedicatedCPUsWhereTheAgentDoesNotKnowItsInstances", test: func(s *suite) {
			k := &hardwareKinds[1]
			agents := func(v uint64) *shard.PutHost {
				p := hardwareHost(1, v)
				p.Host.InstancesUnknown = true
				return p
			}
			nova := func(v uint64, pinned ...int) *shard.PutHost {
				p := hardwareHost(1, v, pinned...)
				p.Host.Imported, p.Host.BootID, p.Instances = true, "import-1", state(1, 8, map[int]int64{1: 1}).Instances
				return p
			}
			s.do(agents(1), k.takes(1, 1, 2), confirm(*Ref(1)), nova(1, 0, 1))
			s.full(k, k.takes(2, 1, 3))
			if got := s.do(k.takes(2, 1, 2)).Claim.Guest.Assigned.Cells[0].Pinned; !slices.Equal(got, []int{2, 3}) {
				s.Errorf("instance 1 is pinned to 0 and 1, and claim 2 was assigned %v", got)
			}
			s.do(agents(2))
			s.reopen()
			s.full(k, k.takes(3, 1, 1))
			s.gives(nova(2), shard.Outcome{OwnedByAgent: true, InstancesTaken: true})
			s.do(k.takes(3, 1, 2))
			s.full(k, k.takes(4, 1, 1))
			knows := hardwareHost(1, 3)
			knows.Instances = state(1, 8, map[int]int64{2: 1, 3: 1}).Instances
			s.do(nova(3, 0, 1, 2, 3), knows, k.takes(4, 1, 4))
		}},
		{name: "WhatNovaSaysOfAnAgentsHostCounts", test: func(s *suite) {
			rack := func(name, zone string) []shard.Aggregate {
				return []shard.Aggregate{{UUID: GroupID(1), Name: name, Metadata: map[string]string{"availability_zone": zone}}}
			}
			agents := func(n uint64) *shard.PutHost {
				p := state(n, 4, nil)
				p.Host.Aggregates = append(rack("mine", "z2"), shard.Aggregate{UUID: GroupID(2), Name: "ssd"})
				return p
			}
			version := uint64(0)
			nova := func(ratio float64, in ...shard.Aggregate) *shard.PutHost {
				version++
				p := imported(version, 4, nil)
				p.Host.Aggregates, p.Host.Providers[0].Inventories[0].AllocationRatio = in, ratio
				return p
			}
			is := func(ratio float64, follows bool, names ...string) {
				s.Helper()
				h := host(s)
				var got []string
				for _, a := range h.Aggregates {
					got = append(got, a.Name)
				}
				if i := h.Providers[0].Inventories[0]; !slices.Equal(got, names) || i.AllocationRatio != ratio || (h.Nova != nil) != follows {
					s.Errorf("the host is in %v, with ratio %v and %+v of Nova, want %v, %v", got, i.AllocationRatio, h.Nova, names, ratio)
				}
			}
			follows := func(p *shard.PutHost) {
				s.Helper()
				s.gives(p, shard.Outcome{OwnedByAgent: true, Followed: true})
			}
			s.do(agents(1))
			is(1, false, "mine", "ssd")
			follows(nova(2, rack("rack1", "z1")...))
			is(2, true, "rack1", "ssd")
			s.changesNothing(nova(2, rack("rack1", "z1")...), shard.Outcome{OwnedByAgent: true})
			s.do(NewClaim(1, 1, 4), NewClaim(2, 1, 4))
			s.refused(NewClaim(3, 1, 1), fault.NoValidHost)

			s.do(agents(2))
			is(2, true, "rack1", "ssd")
			s.reopen()
			is(2, true, "rack1", "ssd")
			if n := host(s).Nova; n.ReportedRatios[Class] != 1 || len(n.ReportedAggregates) != 2 || n.ReportedAggregates[0].Name != "mine" {
				s.Errorf("what the agent reported is %+v", n)
			}

			// Nova removes the host from an aggregate that its agent reports: the host stays out.
			follows(nova(3))
			is(3, true, "ssd")
			s.do(agents(3))
			is(3, true, "ssd")
			follows(nova(2, rack("rack1", "z1")...))
			is(2, true, "rack1", "ssd")

			ends := setAdmin(1, shard.ConditionEnabled)
			ends.EndsNova = true
			s.do(ends)
			is(1, false, "mine", "ssd")

			// When an agent takes over an imported host, the host keeps what the tables gave it.
			s.do(moveGate(0, shard.GateLegacy), nova(2, rack("rack1", "z1")...))
			is(2, false, "rack1")
			s.do(moveGate(1, shard.GateNative), agents(4))
			is(2, true, "rack1", "ssd")
		}},
	}
}
