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
	}
}
