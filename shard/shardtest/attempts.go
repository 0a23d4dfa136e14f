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
		{name: "TakenOverAgainItIsAnsweredAsItIs", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3))
			kept := s.do(takeOverAs("b", 1)).Claim
			if c := s.nothing(takeOverAs("b", 1)).Claim; !equalRows(c, kept) {
				s.Errorf("kept %+v, again %+v", kept, c)
			}
		}},
		{name: "MadeAgainItIsNotTakenBack", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3))
			kept := s.do(takeOverAs("b", 1)).Claim
			if c := s.nothing(attemptOf("a", 1, 1, 3)).Claim; !equalRows(c, kept) {
				s.Errorf("kept %+v, made again %+v", kept, c)
			}
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
		}},
		{name: "I3_NoAttemptEndsAConfirmedClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), confirm(*Ref(1)))
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
			if c := s.do(takeOverAs("b", 1)).Claim; c.State != shard.Confirmed || !c.ExpiresAt.IsZero() {
				s.Errorf("claim is %+v", c)
			}
			s.refused(releaseAs("b", 1), fault.AlreadyExists)
			s.used(1, 3)
			s.do(release(*Ref(1)))
			s.used(1, 0)
		}},
		{name: "AReleaseWithoutAnAttemptEndsAnyonesClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), takeOverAs("b", 1), release(*Ref(1)))
			s.state(1, shard.Released)
			s.used(1, 0)
		}},
		{name: "WhatHasEndedIsNotTakenOver", needs: []string{"advance"}, test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), releaseAs("a", 1))
			s.refused(takeOverAs("b", 1), fault.ClaimExpired)
			s.expired(2, 1, 3)
			s.refused(takeOverAs("b", 2), fault.ClaimExpired)
			s.refused(takeOverAs("b", 3), fault.NotFound)
			s.used(1, 0)
		}},
		{name: "AnExpiredClaimIsLeftToTheAttemptThatTookItOver", needs: []string{"advance"}, test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), takeOverAs("b", 1))
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
		{name: "AClaimWithoutAnAttemptIsTakenOverToo", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
			s.do(takeOverAs("b", 1), releaseAs("b", 1))
			s.used(1, 0)
		}},
		{name: "AnotherConsumersClaimIsNotTakenOver", test: func(s *suite) {
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3))
			s.refused(takeOver{ClaimID: ClaimID(1), ConsumerUUID: ConsumerID(2), Attempt: "b"}, fault.NotFound)
		}},
		{name: "InOneBatchTheOrderDecides", test: func(s *suite) {
			s.do(NewHost(1, 8))
			a := s.apply(
				opOf(attemptOf("a", 1, 1, 1)), opOf(takeOverAs("b", 1)), opOf(releaseAs("a", 1)),
				opOf(attemptOf("a", 2, 1, 1)), opOf(releaseAs("a", 2)), opOf(takeOverAs("b", 2)),
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
			s.do(NewHost(1, 8), attemptOf("a", 1, 1, 3), attemptOf("a", 2, 1, 3), takeOverAs("b", 1))
			s.reopen()
			s.refused(releaseAs("a", 1), fault.AlreadyExists)
			s.do(releaseAs("a", 2))
			s.used(1, 3)
		}},
		{name: "ABadTakeOverIsRefusedByField", test: func(s *suite) {
			s.namesField(takeOver{ConsumerUUID: ConsumerID(1), Attempt: "a"}, "claim_id")
			s.namesField(takeOver{ClaimID: ClaimID(1), Attempt: "a"}, "consumer_uuid")
			s.namesField(takeOverAs("", 1), "attempt")
			s.namesField(takeOverAs("\xff", 1), "attempt")
		}},
	}
}
