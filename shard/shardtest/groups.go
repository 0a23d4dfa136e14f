package shardtest

import (
	"slices"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func groupClauses() []clause {
	return []clause{
		{name: "I9_AntiAffinityLimitsMembersOnAHost", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), grouped(1, 1, "anti-affinity", 2), grouped(2, 1, "anti-affinity", 2))
			if r := s.refused(grouped(3, 1, "anti-affinity", 2), fault.NoValidHost).Refusal; r.Filter != "ServerGroupAntiAffinityFilter" || !slices.Equal(r.GroupHosts, []string{NewHost(1, 8).Host.ServiceHost}) {
				s.Errorf("refused by %q, with members on %v", r.Filter, r.GroupHosts)
			}
			s.do(grouped(3, 2, "anti-affinity", 2), release(*Ref(1)), grouped(4, 1, "anti-affinity", 2))
		}},
		{name: "I9_ALimitBelowOneIsOne", test: func(s *suite) {
			s.do(NewHost(1, 8), grouped(1, 1, "anti-affinity", 0))
			s.refused(grouped(2, 1, "anti-affinity", -3), fault.NoValidHost)
		}},
		{name: "I9_AntiAffinityCountsMembersKnownFromElsewhere", test: func(s *suite) {
			h := NewHost(1, 8)
			h.Instances = []shard.Instance{{UUID: ConsumerID(8)}}
			s.do(h, NewHost(2, 8), NewClaim(9, 2, 1))
			c := grouped(1, 1, "anti-affinity", 1)
			c.Group.Members = []string{ConsumerID(7), ConsumerID(8), ConsumerID(9)}
			s.refused(c, fault.NoValidHost)
			c.HostUUID, c.Allocations[0].ProviderUUID = HostID(2), HostID(2)
			s.refused(c, fault.NoValidHost)
			s.do(release(*Ref(9)), c)
		}},
		{name: "I9_AMemberInBothListsCountsOnce", test: func(s *suite) {
			s.do(NewHost(1, 8), grouped(1, 1, "anti-affinity", 2))
			c := grouped(2, 1, "anti-affinity", 2)
			c.Group.Members = []string{ConsumerID(1), ConsumerID(2)}
			s.do(c)
		}},
		{name: "I9_AntiAffinityHoldsWithinABatch", test: func(s *suite) {
			s.do(NewHost(1, 8))
			a := s.apply(opOf(grouped(1, 1, "anti-affinity", 1)), opOf(grouped(2, 1, "anti-affinity", 1)))
			if a.Outcomes[0].Refusal != nil || a.Outcomes[1].Refusal == nil {
				s.Errorf("outcomes are %+v", a.Outcomes)
			}
		}},
		{name: "I9_AntiAffinityHoldsUnderConcurrency", test: func(s *suite) {
			for h := range 4 {
				s.do(NewHost(h, 100))
			}
			s.raceTimes(s.openLanes(4), 20, func(w, i int) []shard.Op { return []shard.Op{opOf(grouped(w*20+i, i%4, "anti-affinity", 3))} })
			on := map[string]int{}
			for _, c := range s.rows().Claims {
				on[c.HostUUID]++
			}
			for h := range 4 {
				if on[HostID(h)] != 3 {
					s.Errorf("host %d has %d members, want 3", h, on[HostID(h)])
				}
			}
		}},
		{name: "I9_AffinityKeepsToOneServiceHost", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), grouped(1, 1, "affinity", 0), grouped(2, 1, "affinity", 0))
			if r := s.refused(grouped(3, 2, "affinity", 0), fault.NoValidHost).Refusal; r.Filter != "ServerGroupAffinityFilter" || !slices.Equal(r.GroupHosts, []string{NewHost(1, 8).Host.ServiceHost}) {
				s.Errorf("refused by %q, with members on %v", r.Filter, r.GroupHosts)
			}
			s.do(release(*Ref(1)), release(*Ref(2)), grouped(3, 2, "affinity", 0))
		}},
		{name: "I9_AffinityMindsMembersKnownFromElsewhere", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(9, 1, 1))
			c := grouped(1, 2, "affinity", 0)
			c.Group.Members = []string{ConsumerID(9)}
			s.refused(c, fault.NoValidHost)
			c.HostUUID, c.Allocations[0].ProviderUUID = HostID(1), HostID(1)
			s.do(c)
		}},
		{name: "SoftPoliciesRefuseNothing", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), grouped(1, 1, "soft-anti-affinity", 1), grouped(2, 1, "soft-anti-affinity", 1))
			s.do(grouped(3, 2, "soft-affinity", 1))
		}},
		{name: "GroupsAreApart", test: func(s *suite) {
			s.do(NewHost(1, 8), grouped(1, 1, "anti-affinity", 1))
			c := grouped(2, 1, "anti-affinity", 1)
			c.Group.UUID = GroupID(2)
			s.do(c)
		}},
	}
}
