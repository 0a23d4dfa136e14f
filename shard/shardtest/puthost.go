package shardtest

import (
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
