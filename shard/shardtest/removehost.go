package shardtest

import (
	"strings"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func removeHost(n int) *shard.RemoveHost {
	return &shard.RemoveHost{HostUUID: HostID(n), Reason: "scrapped"}
}

func removeHostClauses() []clause {
	return []clause{
		{name: "WhatHoldsTheHostIsNamed", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			o := s.refused(removeHost(1), fault.FailedPrecondition)
			if !strings.Contains(o.Refusal.Message, ClaimID(1)) {
				s.Errorf("refused with %q, want it to name %s", o.Refusal.Message, ClaimID(1))
			}
			s.do(shard.Op{Release: Ref(1)}, removeHost(1))
		}},
		{name: "ItTakesNoClaimAndIsGoneForReaders", test: func(s *suite) {
			s.do(NewHost(1, 8), removeHost(1))
			if h := s.rows().Hosts[HostID(1)]; h == nil || !h.Gone() {
				s.Errorf("the row is %+v, want one that is gone", h)
			}
			s.refused(NewClaim(1, 1, 1), fault.NoValidHost)
			s.refused(removeHost(1), fault.NotFound)
			s.refused(removeHost(2), fault.NotFound)
		}},
		{name: "ARegistrationMakesItAHostAgain", test: func(s *suite) {
			s.do(NewHost(1, 8), removeHost(1), NewHost(1, 8), NewClaim(1, 1, 1))
		}},
		{name: "InTheBatchThatReleasesItsClaim", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			a := s.apply(shard.Op{Release: Ref(1)}, opOf(removeHost(1)), opOf(NewClaim(2, 1, 1)))
			if a.Outcomes[1].Refusal != nil || a.Outcomes[2].Refusal == nil {
				s.Errorf("removed %+v, then claimed %+v", a.Outcomes[1].Refusal, a.Outcomes[2].Refusal)
			}
		}},
	}
}
