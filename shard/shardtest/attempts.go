package shardtest

import (
	"cellgate/internal/fault"
	"cellgate/shard"
)

// attemptOf makes claim n as an attempt's.
func attemptOf(attempt string, n, host int, vcpus int64) *shard.NewClaim {
	c := NewClaim(n, host, vcpus)
	c.Attempt = attempt
	return c
}

// keepAs keeps claim n for an attempt, releaseAs gives it back as that attempt.
func keepAs(attempt string, n int) keep {
	return keep{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(n), Attempt: attempt}
}

func releaseAs(attempt string, n int) release {
	return release{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(n), Attempt: attempt}
}

func attemptClauses() []clause {
	return []clause{
		{name: "AnAttemptReleasesWhatItMade", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3))
			if c := s.do(releaseAs("a", 1)).Claim; c.State != shard.Released {
				s.Errorf("claim is %s", c.State)
			}
			s.nothing(releaseAs("a", 1))
			s.used(1, 0)
		}},
		{name: "I3_WhatAnotherAttemptKeptStays", test: func(s *suite) {
			s.do(NewHost(1, 8))
			made := s.do(attemptOf("a", 1, 1, 3)).Claim
			kept := s.do(keepAs("b", 1)).Claim
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
		{name: "KeptAgainItIsAnsweredAsItIs", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3))
			kept := s.do(keepAs("b", 1)).Claim
			if c := s.nothing(keepAs("b", 1)).Claim; !equalRows(c, kept) {
				s.Errorf("kept %+v, again %+v", kept, c)
			}
		}},
		{name: "MadeAgainItIsNotTakenBack", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3))
			kept := s.do(keepAs("b", 1)).Claim
			if c := s.nothing(attemptOf("a", 1, 1, 3)).Claim; !equalRows(c, kept) {
				s.Errorf("kept %+v, made again %+v", kept, c)
			}
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
		}},
		{name: "I3_NoAttemptEndsAConfirmedClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), confirm(*Ref(1)))
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
			if c := s.do(keepAs("b", 1)).Claim; c.State != shard.Confirmed || !c.ExpiresAt.IsZero() {
				s.Errorf("claim is %+v", c)
			}
			s.refused(releaseAs("b", 1), fault.AlreadyExists)
			s.used(1, 3)
			s.do(release(*Ref(1)))
			s.used(1, 0)
		}},
		{name: "AReleaseWithoutAnAttemptEndsAnyonesClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), keepAs("b", 1), release(*Ref(1)))
			s.state(1, shard.Released)
			s.used(1, 0)
		}},
		{name: "WhatHasEndedIsNotKept", needs: []string{"advance"}, test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), releaseAs("a", 1))
			s.refused(keepAs("b", 1), fault.ClaimExpired)
			s.expired(2, 1, 3)
			s.refused(keepAs("b", 2), fault.ClaimExpired)
			s.refused(keepAs("b", 3), fault.NotFound)
			s.used(1, 0)
		}},
		{name: "AnExpiredClaimIsLeftToTheAttemptThatKeptIt", needs: []string{"advance"}, test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), keepAs("b", 1))
			s.Advance(2 * shard.DefaultClaimTTL)
			s.do(expire(*Ref(1)))
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
			s.do(confirm(*Ref(1)))
			s.used(1, 3)
		}},
		{name: "AReleaseBeforeItsClaimRefusesTheClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), releaseAs("a", 1))
			s.refused(attemptOf("a", 1, 1, 3), fault.ClaimExpired)
			s.used(1, 0)
		}},
		{name: "AClaimWithoutAnAttemptIsKeptToo", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
			s.do(keepAs("b", 1), releaseAs("b", 1))
			s.used(1, 0)
		}},
		{name: "AnotherConsumersClaimIsNotKept", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3))
			s.refused(keep{ClaimID: ClaimID(1), ConsumerUUID: ConsumerID(2), Attempt: "b"}, fault.NotFound)
		}},
		{name: "InOneBatchTheOrderDecides", test: func(s *suite) {
			s.do(NewHost(1, 8))
			a := s.apply(
				opOf(attemptOf("a", 1, 1, 1)), opOf(keepAs("b", 1)), opOf(releaseAs("a", 1)),
				opOf(attemptOf("a", 2, 1, 1)), opOf(releaseAs("a", 2)), opOf(keepAs("b", 2)),
			)
			for i, want := range []fault.Kind{"", "", fault.AlreadyExists, "", "", fault.ClaimExpired} {
				var got fault.Kind
				if r := a.Outcomes[i].Refusal; r != nil {
					got = r.Kind
				}
				if got != want {
					s.Errorf("operation %d: %q, want %q", i, got, want)
				}
			}
			s.used(1, 1)
		}},
		{name: "TheAttemptSurvivesAReopening", needs: []string{"reopen"}, test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), attemptOf("a", 2, 1, 3), keepAs("b", 1))
			s.reopen()
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
			s.do(releaseAs("a", 2))
			s.used(1, 3)
		}},
		{name: "ABadKeepIsRefusedByField", test: func(s *suite) {
			s.namesField(keep{ConsumerUUID: ConsumerID(1), Attempt: "a"}, "claim_id")
			s.namesField(keep{ClaimID: ClaimID(1), Attempt: "a"}, "consumer_uuid")
			s.namesField(keepAs("", 1), "attempt")
			s.namesField(keepAs("\xff", 1), "attempt")
		}},
	}
}
