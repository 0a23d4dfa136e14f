package shardtest

import (
	"cellgate/internal/fault"
	"cellgate/shard"
)

// attemptOf makes claim n for an attempt.
func attemptOf(attempt string, n, host int, vcpus int64) *shard.NewClaim {
	c := NewClaim(n, host, vcpus)
	c.Attempt = attempt
	return c
}

// takeOverAs makes the operation by which an attempt takes over claim n. releaseAs makes that attempt's release.
func takeOverAs(attempt string, n int) takeOver {
	return takeOver{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(n), Attempt: attempt}
}

func releaseAs(attempt string, n int) release {
	return release{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(n), Attempt: attempt}
}

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
		{name: "BeforeItsClaimItRefusesTheClaim", test: func(s *suite) {
			s.do(NewHost(1, 8))
			if c := s.do(release(*Ref(1))).Claim; c.State != shard.Released || c.ConsumerUUID != ConsumerID(1) {
				s.Errorf("tombstone is %+v", c)
			}
			s.refused(NewClaim(1, 1, 3), fault.ClaimExpired)
			s.used(1, 0)
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
		{name: "I3_WhatAnotherAttemptTookOverStays", test: func(s *suite) {
			s.do(NewHost(1, 8))
			made := s.do(attemptOf("a", 1, 1, 3)).Claim
			kept := s.do(takeOverAs("b", 1)).Claim
			want := *made
			want.Attempt, want.UpdatedAt = "b", kept.UpdatedAt
			if !equalRows(kept, &want) || !equalRows(kept, s.find(1)) || !kept.UpdatedAt.After(made.UpdatedAt) {
				s.Errorf("claim is %+v, found %+v, want %+v", kept, s.find(1), want)
			}
			s.inTheWay(releaseAs("a", 1), kept)
			s.state(1, shard.Pending)
			s.used(1, 3)
			s.do(releaseAs("b", 1))
			s.used(1, 0)
		}},
		{name: "ABadTakeOverIsRefusedByField", test: func(s *suite) {
			s.namesField(takeOver{ConsumerUUID: ConsumerID(1), Attempt: "a"}, "claim_id")
			s.namesField(takeOver{ClaimID: ClaimID(1), Attempt: "a"}, "consumer_uuid")
			s.namesField(takeOverAs("", 1), "attempt")
			s.namesField(takeOverAs("\xff", 1), "attempt")
		}},
	}
}
