package shardtest

import (
	"cellgate/internal/fault"
	"cellgate/shard"
)

func releaseClauses() []clause {
	return []clause{
		{name: "AReleasedClaimGivesItsResourcesBack", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3), NewClaim(2, 1, 5), confirm(*Ref(2)))
			if c := s.do(release(*Ref(1))).Claim; c.State != shard.Released || !c.ExpiresAt.IsZero() {
				s.Errorf("claim is %s, expires at %v", c.State, c.ExpiresAt)
			}
			s.used(1, 5)
			s.do(release(*Ref(2)))
			s.used(1, 0)
			s.state(1, shard.Released)
			s.state(2, shard.Released)
		}},
		{name: "AgainDoesNothing", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3), release(*Ref(1)))
			s.nothing(release(*Ref(1)))
			s.used(1, 0)
		}},
		{name: "BeforeItsClaimItRefusesTheClaim", test: func(s *suite) {
			s.do(NewHost(1, 8))
			if c := s.do(release(*Ref(1))).Claim; c.State != shard.Released || c.ConsumerUUID != ConsumerID(1) {
				s.Errorf("tombstone is %+v", c)
			}
			s.refused(NewClaim(1, 1, 3), fault.ClaimExpired)
			s.used(1, 0)
		}},
		{name: "AnotherConsumersClaimStays", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			s.refused(release{ClaimID: ClaimID(1), ConsumerUUID: ConsumerID(2)}, fault.InvalidRequest)
			s.state(1, shard.Pending)
			s.used(1, 3)
		}},
		{name: "OfPendingOnlyLeavesAConfirmedClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3), NewClaim(2, 1, 2), confirm(*Ref(1)))
			for n, kind := range map[int]fault.Kind{1: fault.AlreadyExists, 2: ""} {
				ref := *Ref(n)
				ref.PendingOnly = true
				if kind != "" {
					s.refused(release(ref), kind)
				} else {
					s.do(release(ref))
				}
			}
			s.state(1, shard.Confirmed)
			s.state(2, shard.Released)
			s.used(1, 3)
		}},
		{name: "OfAClaimAsItWasLeavesOneThatWasChanged", test: func(s *suite) {
			s.do(NewHost(1, 8))
			as := func(c *shard.Claim) release {
				at := c.UpdatedAt
				return release{ClaimID: c.ClaimID, ConsumerUUID: ConsumerID(1), Unchanged: &at}
			}
			made := s.do(NewClaim(1, 1, 3)).Claim
			running := s.do(confirm(*Ref(1))).Claim
			if o := s.refused(as(made), fault.StaleGeneration); !equalRows(o.Claim, running) {
				s.Errorf("refused with %+v, there is %+v", o.Claim, running)
			}
			s.do(transferOf(1, 1, 50))
			s.refused(as(running), fault.InvalidRequest)
			back := s.do(transferOf(1, 50, 1)).Claim
			s.refused(as(running), fault.StaleGeneration) // the claim is the same again except for UpdatedAt
			s.state(1, shard.Confirmed)
			s.used(1, 3)
			s.do(as(s.find(1)))
			s.state(1, shard.Released)
			s.nothing(as(back)) // a repeated release
			s.nothing(as(made))
			s.used(1, 0)
			s.do(release{ClaimID: ClaimID(2), ConsumerUUID: ConsumerID(2), Unchanged: &made.UpdatedAt}) // none came
			s.refused(NewClaim(2, 1, 1), fault.ClaimExpired)
		}},
		{name: "AnExpiredClaimCannotComeBackAfterIt", needs: []string{"advance"}, test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.expired(1, 1, 3)
			s.do(release(*Ref(1)))
			s.refused(confirm(*Ref(1)), fault.ClaimExpired)
			s.used(1, 0)
		}},
	}
}
