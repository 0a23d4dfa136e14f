package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func confirmClauses() []clause {
	return []clause{
		{name: "AConfirmedClaimHasNoLease", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			c := s.do(confirm(*Ref(1))).Claim
			if c.State != shard.Confirmed || !c.ExpiresAt.IsZero() {
				s.Errorf("claim is %s, expires at %v", c.State, c.ExpiresAt)
			}
			if u := s.rows().Usages[HostID(1)]; u.Pending != 0 || u.Confirmed != 1 {
				s.Errorf("usage counts %d pending, %d confirmed", u.Pending, u.Confirmed)
			}
			s.Advance(time.Hour)
			s.nothing(expire(*Ref(1)))
			s.state(1, shard.Confirmed)
			s.used(1, 3)
		}},
		{name: "AnExpiredClaimIsTakenAgainWhenItFits", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.expired(1, 1, 8)
			s.used(1, 0)
			if c := s.do(confirm(*Ref(1))).Claim; c.State != shard.Confirmed || !c.ExpiresAt.IsZero() {
				s.Errorf("claim is %s, expires at %v", c.State, c.ExpiresAt)
			}
			s.used(1, 8)
			if c := s.find(1); c.State != shard.Confirmed {
				s.Errorf("claim is found as %s", c.State)
			}
			s.do(release(*Ref(1)))
			s.used(1, 0)
		}},
		{name: "I2_AReinstatedClaimIsConfirmedUnderTheLeaseThatIsNamed", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.expired(1, 1, 8)
			ref := confirm(*Ref(1))
			ref.Reinstate, ref.Lease = true, &time.Time{}
			first := s.do(ref).Claim
			// A repeated request does not confirm the claim that it reinstated itself.
			if again := s.nothing(ref).Claim; !equalRows(first, again) {
				s.Errorf("first %+v, again %+v", first, again)
			}
			s.Advance(2 * shard.ReinstateTTL)
			s.do(expire(*Ref(1)))
			ref.Lease = &first.ExpiresAt
			second := s.do(ref).Claim
			s.nothing(ref)
			s.state(1, shard.Pending)
			ref.Lease = &second.ExpiresAt
			s.do(ref)
			s.state(1, shard.Confirmed)
			s.nothing(ref)
		}},
		{name: "I4_AReinstatedClaimHasNoLongerLeaseThanWasAskedFor", test: func(s *suite) {
			s.do(NewHost(1, 8))
			short := NewClaim(1, 1, 8)
			short.TTL = 2 * time.Second
			s.do(short)
			s.Advance(2 * time.Minute)
			s.do(expire(*Ref(1)))
			reinstate := confirm(*Ref(1))
			reinstate.Reinstate = true
			if c := s.do(reinstate).Claim; c.ExpiresAt.Sub(c.UpdatedAt) > short.TTL {
				s.Errorf("the claim is reinstated for %v; its lease was %v", c.ExpiresAt.Sub(c.UpdatedAt), short.TTL)
			}
		}},
		{name: "I1_AnExpiredClaimIsLostWhenItDoesNotFit", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.expired(1, 1, 8)
			s.do(NewClaim(2, 1, 1))
			if c := s.refused(confirm(*Ref(1)), fault.ClaimExpired).Claim; c == nil || c.State != shard.Expired {
				s.Errorf("the claim answered is %+v", c)
			}
			s.used(1, 1)
		}},
		{name: "I9_AnExpiredClaimIsLostToAMemberKnownFromElsewhere", test: func(s *suite) {
			s.do(NewHost(1, 8))
			c := grouped(1, 1, "anti-affinity", 1)
			c.Group.Members = []string{ConsumerID(9)}
			s.do(c)
			s.Advance(2 * time.Minute)
			s.do(expire(*Ref(1)), NewClaim(9, 1, 1))
			s.refused(confirm(*Ref(1)), fault.ClaimExpired)
		}},
		{name: "I9_AClaimThatTheBatchExpiresIsLostToItsGroup", test: func(s *suite) {
			s.do(NewHost(1, 8), grouped(1, 1, "anti-affinity", 2), grouped(2, 1, "anti-affinity", 2))
			s.Advance(2 * time.Minute)
			s.do(grouped(3, 1, "anti-affinity", 3))
			a := s.apply(opOf(expire(*Ref(1))), opOf(confirm(*Ref(1))))
			if r := a.Outcomes[1].Refusal; r == nil || r.Kind != fault.ClaimExpired {
				s.Errorf("the confirm's refusal is %+v", r)
			}
			s.state(1, shard.Expired)
		}},
	}
}

// expired makes claim n, lets its lease end and expires it.
func (s *suite) expired(n, host int, vcpus int64) {
	s.Helper()
	s.do(NewClaim(n, host, vcpus))
	s.Advance(2 * time.Minute)
	s.do(expire(*Ref(n)))
	s.state(n, shard.Expired)
}

// grouped makes a claim of one VCPU in group 1.
func grouped(n, host int, policy string, limit int32) *shard.NewClaim {
	c := NewClaim(n, host, 1)
	c.Group = &shard.Group{UUID: GroupID(1), Policy: policy, MaxPerHost: limit}
	return c
}
