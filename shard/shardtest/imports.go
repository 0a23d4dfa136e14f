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
		{name: "AnImportThatSaysWhatTheRowSaysWritesNothing", test: func(s *suite) {
			s.do(imported(1, 8, map[int]int64{1: 1}))
			before := host(s)
			s.changesNothing(imported(2, 8, map[int]int64{1: 1}), shard.Outcome{Unchanged: true})
			other := imported(1, 8, map[int]int64{1: 1})
			other.Host.BootID = "import-2"
			s.changesNothing(other, shard.Outcome{Unchanged: true})
			s.gives(imported(3, 8, map[int]int64{2: 2}), shard.Outcome{Unchanged: true, Adopted: 1, Released: 1})
			// The instances change back: each adoption makes a new claim.
			s.gives(imported(4, 8, map[int]int64{1: 1}), shard.Outcome{Unchanged: true, Adopted: 1, Released: 1})
			if !equalRows(before, host(s)) {
				s.Errorf("host is %+v, was %+v", host(s), before)
			}
			s.used(1, 1)
			if o := s.do(imported(5, 9, map[int]int64{1: 1})); o.Unchanged || host(s).Providers[0].Inventories[0].Total != 9 {
				s.Errorf("what changed is not written: %+v", o)
			}
			s.nothing(imported(4, 8, map[int]int64{2: 2}))
		}},
		{name: "AHostThatAnAgentRegisteredIsLeftToIt", test: func(s *suite) {
			s.do(state(1, 8, map[int]int64{1: 1}))
			s.gives(imported(1, 16, map[int]int64{2: 2}), shard.Outcome{OwnedByAgent: true, Followed: true})
			s.changesNothing(imported(2, 16, map[int]int64{2: 2}), shard.Outcome{OwnedByAgent: true})
			if h := host(s); h.Imported || h.Providers[0].Inventories[0].Total != 8 {
				s.Errorf("host is %+v", h)
			}
		}},
		{name: "AnAgentThatDoesNotKnowItsInstancesLeavesClaimsAsTheyAre", test: func(s *suite) {
			s.do(imported(1, 8, map[int]int64{1: 1, 2: 2}), NewClaim(5, 1, 1))
			unknown := state(1, 16, nil)
			unknown.Host.InstancesUnknown = true
			s.gives(unknown, shard.Outcome{})
			if h := host(s); !h.InstancesUnknown || h.Imported {
				s.Errorf("host is %+v", h)
			}
			s.used(1, 4)
			s.state(5, shard.Pending)
			listed := *unknown
			listed.Instances = state(1, 16, map[int]int64{1: 1}).Instances
			s.refused(&listed, fault.InvalidRequest)
			s.do(state(2, 16, map[int]int64{1: 1}))
			s.used(1, 2)
			if h := host(s); h.InstancesUnknown {
				s.Errorf("the agent knows its instances, and the host is %+v", h)
			}
		}},
		{name: "AnImportBringsClaimsInLineWhereTheAgentDoesNotKnowItsInstances", test: func(s *suite) {
			unknown := state(1, 16, nil)
			unknown.Host.InstancesUnknown = true
			s.do(unknown, NewClaim(5, 1, 1))
			s.gives(imported(1, 8, map[int]int64{1: 1, 2: 2, 5: 1}), shard.Outcome{OwnedByAgent: true, Followed: true, InstancesTaken: true, Adopted: 2, Confirmed: 1})
			before := host(s)
			s.state(5, shard.Confirmed)
			s.used(1, 4)
			s.do(NewClaim(6, 1, 1), NewClaim(7, 1, 1), confirm(*Ref(7)))
			s.gives(imported(2, 8, map[int]int64{2: 2}), shard.Outcome{OwnedByAgent: true, InstancesTaken: true, Released: 2})
			s.state(5, shard.Released)
			s.state(6, shard.Pending)
			s.state(7, shard.Confirmed) // no import ever had its instance
			s.used(1, 4)
			if !equalRows(before, host(s)) {
				s.Errorf("host is %+v, was %+v", host(s), before)
			}
			s.do(state(2, 16, map[int]int64{2: 2}))
			s.changesNothing(imported(3, 8, map[int]int64{1: 1}), shard.Outcome{OwnedByAgent: true})
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
		{name: "OlderRowsDoNotChangeWhatNovaSaysOfAnAgentsHost", test: func(s *suite) {
			nova := func(version uint64, ratio float64) *shard.PutHost {
				p := imported(version, 4, nil)
				p.Host.Providers[0].Inventories[0].AllocationRatio = ratio
				return p
			}
			s.do(state(1, 4, nil))
			s.gives(nova(5, 4), shard.Outcome{OwnedByAgent: true, Followed: true})
			s.do(state(2, 4, nil))
			s.reopen()
			s.changesNothing(nova(4, 2), shard.Outcome{OwnedByAgent: true, Unchanged: true, Outdated: true})
			s.changesNothing(nova(7, 4), shard.Outcome{OwnedByAgent: true})
			s.gives(nova(5, 2), shard.Outcome{OwnedByAgent: true, Followed: true})
			if got := host(s).Providers[0].Inventories[0].AllocationRatio; got != 2 {
				s.Errorf("the ratio is %v", got)
			}
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
		{name: "AnImportOfRowsThatAreOlderThanAClaimNeitherEndsNorShrinksIt", test: func(s *suite) {
			s.do(imported(1, 8, nil))
			for _, unknown := range []bool{false, true} {
				if unknown {
					agents := state(1, 16, nil)
					agents.Host.InstancesUnknown = true
					s.do(agents)
				}
				claimed, want := 5, shard.Outcome{Unchanged: true}
				if unknown {
					claimed, want = 6, shard.Outcome{OwnedByAgent: true, InstancesTaken: true}
				}
				skipped, released := want, want
				skipped.NewerClaimsSkipped, released.Released = 3, 2
				s.do(NewClaim(claimed, 1, 1), imported(10, 8, map[int]int64{1: 2, 2: 2, claimed: 1}))
				older := func(at time.Time, version uint64, instances map[int]int64) *shard.PutHost {
					p := imported(version, 8, instances)
					p.InstancesAt = at
					return p
				}
				last := s.find(claimed).UpdatedAt
				s.changesNothing(older(last.Add(-time.Second), 11, map[int]int64{1: 1}), skipped)
				s.state(claimed, shard.Confirmed)
				s.used(1, 5)
				// If an import shows more in use than a claim holds, the import counts, even if the claim is newer.
				s.gives(older(last.Add(-time.Second), 11, map[int]int64{1: 3, 2: 2, claimed: 1}), want)
				s.used(1, 6)
				now := s.now().Add(time.Second)
				s.gives(older(now, 12, map[int]int64{1: 1}), released)
				s.state(claimed, shard.Released)
				s.used(1, 1)
			}
			s.changesNothing(state(1, 16, nil), shard.Outcome{})
		}},
		{name: "AnAgentTakesItsHostFromTheImport", test: func(s *suite) {
			s.do(imported(9, 8, map[int]int64{1: 1}))
			agents := state(1, 16, map[int]int64{1: 1})
			agents.Host.BootID = "import-1" // the same boot id changes nothing
			s.do(agents)
			if h := host(s); h.Imported || h.StateVersion != 1 || h.Providers[0].Inventories[0].Total != 16 {
				s.Errorf("host is %+v", h)
			}
			s.used(1, 1)
		}},
		{name: "AClaimIsSeenOnceAReportHasItsInstance", test: func(s *suite) {
			seen := func(n int, want bool, when string) {
				s.Helper()
				if c, found := s.rows().Claims[ClaimID(n)], s.find(n); c.Seen != want || found.Seen != want {
					s.Errorf("%s: claim %d is seen: %v, found as %v, want %v", when, n, c.Seen, found.Seen, want)
				}
			}
			s.do(state(1, 8, nil), NewClaim(1, 1, 1), NewClaim(2, 1, 1), confirm(*Ref(2)), state(2, 8, nil))
			seen(1, false, "no report has it")
			seen(2, false, "its caller confirmed it")
			s.do(state(3, 8, map[int]int64{1: 1, 2: 1, 3: 1}))
			seen(1, true, "confirmed by the report")
			seen(2, true, "in the report")
			for _, c := range s.rows().Claims {
				if c.Adopted && !c.Seen {
					s.Errorf("an adopted claim is not seen: %+v", c)
				}
			}
			s.do(state(4, 8, nil))
			seen(2, true, "gone again")
			ended := s.do(release(*Ref(2))).Claim
			if c := s.find(2); !c.Seen || !ended.Seen {
				s.Errorf("the ended claim is %+v", c)
			}
			s.do(NewClaim(4, 1, 1), moveGate(0, shard.GateLegacy), imported(1, 8, map[int]int64{4: 1}))
			seen(4, true, "in an import")
		}},
	}
}
