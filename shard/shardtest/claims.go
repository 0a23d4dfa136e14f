package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func claimClauses() []clause {
	return []clause{
		{name: "AClaimTakesItsResourcesUntilItsLeaseEnds", test: func(s *suite) {
			s.do(NewHost(1, 8))
			now, err := s.Now(s.ctx)
			if err != nil {
				s.Fatal(err)
			}
			c := s.do(NewClaim(1, 1, 3)).Claim
			if c.State != shard.Pending || c.HostUUID != HostID(1) || c.ServiceHost != ServiceHost(1) || c.ConsumerUUID != ConsumerID(1) {
				s.Errorf("claim is %+v", c)
			}
			if c.CreatedAt.Before(now) || !c.ExpiresAt.Equal(c.CreatedAt.Add(time.Minute)) || !c.UpdatedAt.Equal(c.CreatedAt) {
				s.Errorf("claim made at %v, updated at %v, expires at %v; it was %v before", c.CreatedAt, c.UpdatedAt, c.ExpiresAt, now)
			}
			if !equalRows(c, s.find(1)) {
				s.Errorf("the claim answered is %+v, the one found %+v", c, s.find(1))
			}
			s.used(1, 3)
			if u := s.rows().Usages[HostID(1)]; u.Pending != 1 || u.Confirmed != 0 {
				s.Errorf("usage counts %d pending, %d confirmed", u.Pending, u.Confirmed)
			}
		}},
		{name: "AClaimIDNamesOneClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3))
			s.refused(NewClaim(1, 2, 3), fault.InvalidRequest)
			other := NewClaim(1, 1, 3)
			other.ConsumerUUID = ConsumerID(2)
			s.refused(other, fault.InvalidRequest)
			for field, change := range map[string]func(*shard.NewClaim){
				"consumer_uuid":  func(c *shard.NewClaim) { c.ConsumerUUID = ConsumerID(2) },
				"host_uuid":      func(c *shard.NewClaim) { c.HostUUID = HostID(2) },
				"allocations":    func(c *shard.NewClaim) { c.Allocations[0].Amount = 2 },
				"group":          func(c *shard.NewClaim) { c.Group = &shard.Group{UUID: GroupID(1), Policy: "soft-affinity"} },
				"moves_claim_id": func(c *shard.NewClaim) { c.Moves = ClaimID(9) },
			} {
				c := NewClaim(1, 1, 3)
				change(c)
				s.namesField(c, field)
			}
			s.used(1, 3)
		}},
		{name: "I2_AConsumerHasOneLiveClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			first := s.do(NewClaim(1, 1, 3)).Claim
			second := NewClaim(2, 2, 3)
			second.ConsumerUUID = ConsumerID(1)
			s.inTheWay(second, first)
			s.used(2, 0)
			s.do(release(*Ref(1)), second)
			s.used(2, 3)
		}},
		{name: "I1_AProviderIsFilledToCapacityAndNoFurther", test: func(s *suite) {
			h := NewHost(1, 8)
			h.Host.Providers[0].Inventories[0].Reserved = 3
			h.Host.Providers[0].Inventories[0].AllocationRatio = 1.5
			s.do(h) // (8-3)*1.5 = 7.5: 7
			s.do(NewClaim(1, 1, 4))
			s.refusedBy(NewClaim(2, 1, 4), "ResourceFilter", Class)
			s.do(NewClaim(3, 1, 3))
			s.refused(NewClaim(4, 1, 1), fault.NoValidHost)
			s.used(1, 7)
		}},
		{name: "I1_UnaccountedUsageTakesRoomWithoutTheRatio", test: func(s *suite) {
			h := NewHost(1, 8)
			inv := &h.Host.Providers[0].Inventories[0]
			inv.AllocationRatio, inv.MaxUnit, inv.Unaccounted, inv.Filled = 4, 32, 3, 100
			s.do(h) // 8*4 - 3 = 29
			s.refusedBy(NewClaim(1, 1, 30), "ResourceFilter", Class)
			s.do(NewClaim(2, 1, 29))
			s.used(1, 29)
			if got := s.rows().Hosts[HostID(1)].Providers[0].Inventories[0]; got != *inv {
				s.Errorf("the inventory is %+v, want %+v", got, *inv)
			}
		}},
		{name: "AmountsKeepToMinMaxAndStep", test: func(s *suite) {
			h := NewHost(1, 64)
			inv := &h.Host.Providers[0].Inventories[0]
			inv.MinUnit, inv.MaxUnit, inv.StepSize = 4, 16, 4
			s.do(h)
			for i, amount := range []int64{3, 17, 20, 6} {
				s.refused(NewClaim(i+1, 1, amount), fault.NoValidHost)
			}
			s.do(NewClaim(11, 1, 4), NewClaim(12, 1, 16))
		}},
		{name: "AProviderOrClassThatIsNotThereDoesNotFit", test: func(s *suite) {
			s.do(NewHost(1, 8))
			c := NewClaim(1, 1, 1)
			c.Allocations[0].ResourceClass = "FPGA"
			s.refusedBy(c, "ResourceFilter", "FPGA")
			c = NewClaim(1, 1, 1)
			c.Allocations[0].ProviderUUID = HostID(2)
			s.refused(c, fault.NoValidHost)
		}},
		{name: "AClaimKeepsWhatItWasGiven", test: func(s *suite) {
			s.do(NewHost(1, 8))
			n := NewClaim(1, 1, 2)
			n.InstanceIndex, n.Answer = 4, []byte("the answer")
			n.Group = &shard.Group{UUID: GroupID(1), Policy: "soft-affinity", MaxPerHost: 2, Members: []string{ConsumerID(7)}}
			s.do(n)
			c := s.find(1)
			if c.RequestID != n.RequestID || string(c.Fingerprint) != string(n.Fingerprint) || c.DecisionID != n.DecisionID ||
				c.InstanceIndex != 4 || string(c.Answer) != "the answer" || c.ProjectID != n.ProjectID || c.UserID != n.UserID ||
				!equalRows(c.Group, n.Group) || !equalRows(&c.Allocations, &n.Allocations) || c.Adopted {
				s.Errorf("claim is %+v", c)
			}
		}},
	}
}
