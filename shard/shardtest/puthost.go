package shardtest

import (
	"cellgate/internal/fault"
	"cellgate/shard"
)

// state makes report n of host 1's agent. The instances map gives each instance's VCPU.
func state(n uint64, vcpus int64, instances map[int]int64) *shard.PutHost {
	h := NewHost(1, vcpus)
	h.Host.StateVersion = n
	for i, used := range instances {
		in := shard.Instance{UUID: ConsumerID(i), ProjectID: "project-2", UserID: "user-2"}
		if used > 0 {
			in.Allocations = []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: used}}
		}
		h.Instances = append(h.Instances, in)
	}
	return h
}

func putHostClauses() []clause {
	return []clause{
		{name: "AHostIsKeptAsItIsPut", test: func(s *suite) {
			p := NewHost(1, 8)
			p.Host.Aggregates = []shard.Aggregate{{UUID: GroupID(1), Name: "az", Metadata: map[string]string{"availability_zone": "z1"}}}
			p.Host.IOWorkload, p.Host.FailedBuilds, p.Host.AgentVersion = 3, 2, 7
			p.Host.HostIP, p.Host.DisabledReason = "10.0.0.1", "no reason"
			p.Host.Providers = append(p.Host.Providers, shard.Provider{UUID: HostID(9), ParentUUID: HostID(1), Name: "numa0"})
			s.do(p)
			got := *s.rows().Hosts[HostID(1)]
			if got.Generation < 1 {
				s.Errorf("generation is %d", got.Generation)
			}
			got.Generation = 0
			if !equalRows(&got, &p.Host) {
				s.Errorf("host is %+v, want %+v", got, p.Host)
			}
		}},
		{name: "EveryWriteHasAHigherGeneration", test: func(s *suite) {
			last := int64(0)
			rises := func() {
				s.Helper()
				r := s.rows()
				g := r.Hosts[HostID(1)].Generation
				if u := r.Usages[HostID(1)]; u != nil {
					g = max(g, u.Generation)
				}
				if g <= last {
					s.Fatalf("generation is %d after %d", g, last)
				}
				last = g
			}
			s.do(NewHost(1, 8))
			rises()
			s.do(NewClaim(1, 1, 1))
			rises()
			s.do(state(2, 8, nil))
			rises()
			s.do(confirm(*Ref(1)))
			rises()
			s.do(release(*Ref(1)))
			rises()
		}},
		{name: "AStateThatIsNotNewerChangesNothing", test: func(s *suite) {
			s.do(state(5, 8, nil))
			s.nothing(state(5, 16, map[int]int64{1: 1}))
			s.nothing(state(4, 16, map[int]int64{1: 1}))
			s.do(state(6, 16, nil))
			if c := s.rows().Hosts[HostID(1)].Providers[0].Inventories[0].Total; c != 16 {
				s.Errorf("total is %d", c)
			}
		}},
		{name: "ANewIncarnationStartsItsOwnCount", test: func(s *suite) {
			s.do(state(5, 8, nil))
			p := state(1, 16, nil)
			p.Host.BootID = "boot-2"
			s.do(p)
			if h := s.rows().Hosts[HostID(1)]; h.StateVersion != 1 || h.BootID != "boot-2" {
				s.Errorf("host is of %s, %d", h.BootID, h.StateVersion)
			}
		}},
		{name: "AStateReplacesNoIncarnationThatItWasNotAskedOver", test: func(s *suite) {
			put := func(boot string, version uint64, over string, instances map[int]int64) *shard.PutHost {
				p := state(version, 8, instances)
				p.Host.BootID, p.ExpectedBootID = boot, &over
				return p
			}
			s.do(put("boot-1", 5, "", nil))
			s.changesNothing(put("boot-2", 1, "", map[int]int64{1: 1}), shard.Outcome{CurrentBootID: "boot-1"})
			s.do(put("boot-2", 1, "boot-1", map[int]int64{1: 1}), put("boot-2", 4, "", map[int]int64{1: 1, 2: 1}))
			for _, over := range []string{"", "boot-1", "boot-3"} {
				s.changesNothing(put("boot-1", 7, over, nil), shard.Outcome{CurrentBootID: "boot-2"})
			}
			s.changesNothing(put("boot-2", 2, "boot-1", map[int]int64{1: 1}), shard.Outcome{})
			s.used(1, 2)
			s.do(moveGate(0, shard.GateLegacy), imported(1, 8, map[int]int64{1: 1, 2: 1}), moveGate(1, shard.GateNative))
			s.do(put("boot-1", 8, "", map[int]int64{1: 1, 2: 1}))
			s.used(1, 2)
		}},
		{name: "AnInstanceWithoutAClaimIsAdopted", test: func(s *suite) {
			s.gives(state(1, 8, map[int]int64{1: 3, 2: 0}), shard.Outcome{Adopted: 2})
			s.used(1, 3)
			p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(1)}})
			if err != nil || len(p.Claims) != 1 {
				s.Fatalf("found %+v, %v", p, err)
			}
			if c := p.Claims[0]; !c.Adopted || c.State != shard.Confirmed || c.HostUUID != HostID(1) || c.ServiceHost != ServiceHost(1) ||
				c.ProjectID != "project-2" || c.UserID != "user-2" || !c.ExpiresAt.IsZero() || len(c.ClaimID) > 64 {
				s.Errorf("claim is %+v", c)
			}
			s.gives(state(2, 8, map[int]int64{1: 3, 2: 0}), shard.Outcome{})
			s.used(1, 3)
		}},
		{name: "APendingClaimOfAnInstanceThatExistsIsConfirmed", test: func(s *suite) {
			s.do(state(1, 8, nil), NewClaim(1, 1, 3))
			s.gives(state(2, 8, map[int]int64{1: 5}), shard.Outcome{Confirmed: 1})
			if c := s.find(1); c.State != shard.Confirmed || c.Adopted {
				s.Errorf("claim is %+v", c)
			}
			s.used(1, 3)
		}},
		{name: "AConfirmedClaimWithHardwareAwaitsAReportThatHasItsInstance", test: func(s *suite) {
			awaited := func(n int, want bool, when string) {
				s.Helper()
				if c, found := s.rows().Claims[ClaimID(n)], s.find(n); c.Guest.Awaited != want || found.Guest.Awaited != want {
					s.Errorf("%s: awaited is %v, found with %v, want %v", when, c.Guest.Awaited, found.Guest.Awaited, want)
				}
			}
			s.do(state(1, 8, nil), withHardware(NewClaim(1, 1, 3)), NewClaim(2, 1, 1))
			awaited(1, false, "pending")
			if c := s.do(confirm(*Ref(1))).Claim; !c.Guest.Awaited {
				s.Error("confirmed, and not awaited")
			}
			s.do(confirm(*Ref(2)))
			awaited(2, false, "without hardware")
			s.nothing(confirm(*Ref(1)))
			s.do(state(2, 8, nil))
			awaited(1, true, "a report without the instance")
			s.do(state(3, 8, map[int]int64{2: 1}))
			before := s.find(2)
			s.do(state(4, 8, map[int]int64{1: 3, 2: 1}))
			awaited(1, false, "a report with the instance")
			if c := s.find(2); !equalRows(before, c) {
				s.Errorf("a claim that awaits nothing is %+v, was %+v", c, before)
			}
			s.state(1, shard.Confirmed)
			s.used(1, 4)
			s.do(withHardware(NewClaim(3, 1, 1)), state(5, 8, map[int]int64{1: 3, 2: 1, 3: 1}))
			s.state(3, shard.Confirmed)
			awaited(3, false, "confirmed by the report")
		}},
		{name: "AnAdoptedClaimGoesWithItsInstance", test: func(s *suite) {
			s.do(state(1, 8, map[int]int64{1: 3, 2: 1}), state(2, 8, map[int]int64{2: 1}))
			s.used(1, 1)
			s.gives(state(3, 8, map[int]int64{1: 3, 2: 1}), shard.Outcome{Adopted: 1})
			s.used(1, 4)
		}},
		{name: "AClaimThatWasMadeStaysWithoutItsInstance", test: func(s *suite) {
			s.do(state(1, 8, nil), NewClaim(1, 1, 3), NewClaim(2, 1, 2), state(2, 8, map[int]int64{1: 3}), state(3, 8, nil))
			s.state(1, shard.Confirmed)
			s.state(2, shard.Pending)
			s.used(1, 5)
		}},
		{name: "AnAdoptedClaimTakesWhatIsReported", test: func(s *suite) {
			s.do(state(1, 8, map[int]int64{1: 3}), state(2, 8, map[int]int64{1: 5}))
			s.used(1, 5)
		}},
		{name: "AConsumerWithAClaimElsewhereIsLeftAlone", test: func(s *suite) {
			s.do(NewHost(2, 8), NewClaim(1, 2, 3))
			s.gives(state(1, 8, map[int]int64{1: 3}), shard.Outcome{ClaimedElsewhere: 1})
			if c := s.find(1); c.HostUUID != HostID(2) || c.State != shard.Pending {
				s.Errorf("claim is %+v", c)
			}
			s.used(1, 0)
		}},
		{name: "AdoptedClaimsMayExceedCapacityAndAreCounted", test: func(s *suite) {
			s.gives(state(1, 4, map[int]int64{1: 3, 2: 3}), shard.Outcome{Adopted: 2, Overcommitted: 1})
			s.used(1, 6)
			s.refused(NewClaim(5, 1, 1), fault.NoValidHost)
			s.do(state(2, 8, map[int]int64{1: 3, 2: 3}), NewClaim(5, 1, 2))
		}},
		{name: "ClaimsOnAProviderThatIsGoneStayAndAreCounted", test: func(s *suite) {
			p := state(1, 8, nil)
			p.Host.Providers = append(p.Host.Providers, shard.Provider{
				UUID: HostID(9), ParentUUID: HostID(1), Name: "gpu",
				Inventories: []shard.Inventory{{ResourceClass: "VGPU", Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, AllocationRatio: 1}},
			})
			s.do(p)
			c := NewClaim(1, 1, 1)
			c.Allocations = append(c.Allocations, shard.Used{ProviderUUID: HostID(9), ResourceClass: "VGPU", Amount: 1})
			s.do(c)
			s.gives(state(2, 8, nil), shard.Outcome{Overcommitted: 1})
			s.state(1, shard.Pending)
			s.do(release(*Ref(1)))
		}},
		{name: "ClaimsFollowTheirHostsName", test: func(s *suite) {
			s.do(state(1, 8, nil), NewClaim(1, 1, 1))
			p := state(2, 8, nil)
			p.Host.ServiceHost = "renamed"
			s.do(p)
			if c := s.find(1); c.ServiceHost != "renamed" {
				s.Errorf("claim is on %q", c.ServiceHost)
			}
		}},
	}
}
