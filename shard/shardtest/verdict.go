package shardtest

import (
	"strings"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// rejects is a host's verdict, at a version of its agent, that claim n does not fit.
func rejects(n, host int, version uint64) *shard.RecordVerdict {
	return &shard.RecordVerdict{ClaimID: ClaimID(n), HostUUID: HostID(host), Verdict: shard.Verdict{
		Outcome: shard.VerdictRejected, Reason: "NO_ROOM", Detail: "2 VCPU asked for, 1 free", BootID: "boot-1", Version: version,
	}}
}

// aborts is a host's verdict that an operation gave claim n up.
func aborts(n, host int, version uint64) *shard.RecordVerdict {
	j := rejects(n, host, version)
	j.Verdict.Reason, j.Verdict.Detail = shard.ReasonAborted, "an operation on the host gave it back"
	return j
}

// accepts is a host's verdict that claim n fits.
func accepts(n, host int, version uint64) *shard.RecordVerdict {
	return &shard.RecordVerdict{ClaimID: ClaimID(n), HostUUID: HostID(host), Verdict: shard.Verdict{Outcome: shard.VerdictOK, BootID: "boot-1", Version: version}}
}

// ends makes a rejection end its claim.
func ends(j *shard.RecordVerdict) *shard.RecordVerdict {
	j.End = true
	return j
}

// rejection is what a claim keeps of a host's verdict.
func rejection(host int, v *shard.Verdict) shard.Rejection {
	return shard.Rejection{HostUUID: HostID(host), ServiceHost: ServiceHost(host), Verdict: *v}
}

func (s *suite) keepsRejections(c *shard.Claim, want ...shard.Rejection) {
	s.Helper()
	if !equalRows(c.Rejections, want) {
		s.Errorf("rejections are %+v, want %+v", c.Rejections, want)
	}
	if found := s.find(1); !equalRows(c, found) {
		s.Errorf("the claim answered is %+v, the one found %+v", c, found)
	}
}

func verdictClauses() []clause {
	two := func(s *suite) *shard.Claim {
		s.do(NewHost(1, 8), NewHost(2, 8))
		return s.do(NewClaim(1, 1, 3)).Claim
	}
	return []clause{
		{name: "ARejectionIsNotedAndEndsNothing", test: func(s *suite) {
			made := two(s)
			c := s.do(rejects(1, 1, 7)).Claim
			want := *made
			v := rejects(1, 1, 7).Verdict
			v.At = c.Verdict.At
			want.Verdict, want.UpdatedAt = &v, c.UpdatedAt
			if !equalRows(c, &want) || !equalRows(c, s.find(1)) || !c.UpdatedAt.After(made.UpdatedAt) || v.At.Before(made.CreatedAt) {
				s.Errorf("claim is %+v, found %+v, want %+v", c, s.find(1), want)
			}
			s.used(1, 3)
		}},
		{name: "WhatItsHostAbortsHoldsNothing", test: func(s *suite) {
			two(s)
			s.do(rejects(1, 1, 7)) // the abort overrides an earlier verdict
			c := s.do(aborts(1, 1, 8)).Claim
			if c.State != shard.Pending || len(c.Allocations) != 0 || !c.GaveBack() || !equalRows(c, s.find(1)) {
				s.Errorf("it is %+v, found %+v", c, s.find(1))
			}
			s.used(1, 0)
			s.nothing(aborts(1, 1, 9))
			s.nothing(accepts(1, 1, 10))
			s.nothing(rejects(1, 1, 11))
			s.nothing(ends(rejects(1, 1, 12)))
			if o := s.refused(confirm(*Ref(1)), fault.ClaimRejected); o.Refusal.Detail != shard.ReasonAborted {
				s.Errorf("a confirm is refused with %+v", o.Refusal)
			}
			s.do(NewClaim(2, 1, 8)) // this takes the whole host
			swapped := s.do(swapTo(1, 2)).Claim
			if swapped.Verdict != nil || swapped.State != shard.Pending {
				s.Errorf("on another host it is %+v", swapped)
			}
			s.used(1, 8)
			s.used(2, 1)
			s.do(confirm(*Ref(1)))
		}},
		{name: "AConfirmedClaimGoesBackByTheWordOfWhoKnowsItsInstances", test: func(s *suite) {
			for _, h := range []*shard.PutHost{NewHost(1, 8), NewHost(3, 8)} {
				h.Host.BootID, h.Host.StateVersion = "boot-1", 1
				h.Host.InstancesUnknown = h.Host.UUID == HostID(3)
				s.do(h)
			}
			for n, host := range []int{1, 1, 1, 3} {
				s.do(NewClaim(n+1, host, 1), confirm(*Ref(n + 1)))
			}
			other := aborts(1, 1, 8)
			other.Verdict.BootID = "boot-2"
			s.nothing(other)
			s.nothing(aborts(1, 2, 8)) // the claim is on another host
			s.nothing(aborts(4, 3, 8)) // host 3 does not know its instances
			s.nothing(rejects(1, 1, 8))
			s.do(aborts(1, 1, 8))
			s.state(1, shard.Rejected)
			s.used(1, 2)
			s.refused(confirm(*Ref(1)), fault.ClaimRejected)
			s.do(transferOf(2, 2, 9))
			s.nothing(aborts(2, 1, 8)) // the claim has a new consumer
			there := NewHost(1, 8)
			there.Host.BootID, there.Host.StateVersion = "boot-1", 2
			there.Instances = []shard.Instance{{UUID: ConsumerID(3), Allocations: []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: 1}}}}
			s.do(there)
			s.nothing(aborts(3, 1, 8)) // a report already had the instance
			s.used(1, 2)
		}},
		{name: "AConfirmedClaimThatMovesAnotherDoesNotGoBack", test: func(s *suite) {
			two(s)
			s.do(confirm(*Ref(1)), NewClaim(2, 1, 1), confirm(*Ref(2)))
			runs := NewHost(1, 8)
			runs.Host.StateVersion = 2
			for n, amount := range []int64{3, 1} {
				runs.Instances = append(runs.Instances, shard.Instance{UUID: ConsumerID(n + 1), Allocations: []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: amount}}})
			}
			s.do(runs)
			for _, m := range []struct{ from, to, host int }{{1, 3, 2}, {2, 4, 1}} { // to another host, and a resize
				s.do(moving(m.to, m.from, m.host), confirm(refOf(m.to, m.from)))
				s.state(m.from, shard.Released)
				s.nothing(aborts(m.to, m.host, 8))
				s.state(m.to, shard.Confirmed)
			}
			s.used(1, 1)
			s.used(2, 1)
			s.do(release(refOf(3, 1)))
			s.used(2, 0)
		}},
		{name: "TheSameWordAgainWritesNothing", test: func(s *suite) {
			two(s)
			first := s.do(rejects(1, 1, 7)).Claim
			if c := s.nothing(rejects(1, 1, 9)).Claim; !equalRows(c, first) {
				s.Errorf("first %+v, again %+v", first, c)
			}
		}},
		{name: "ARejectedClaimIsNotConfirmed", test: func(s *suite) {
			two(s)
			s.do(rejects(1, 1, 7))
			o := s.refused(confirm(*Ref(1)), fault.ClaimRejected)
			if o.Claim == nil || o.Claim.Verdict == nil || o.Refusal.Filter != "HostVerdict" || o.Refusal.Detail != "NO_ROOM" || !strings.Contains(o.Refusal.Message, "1 free") {
				s.Errorf("refused by %+v with %+v", o.Refusal, o.Claim)
			}
			s.state(1, shard.Pending)
		}},
		{name: "ANotedRejectionCanBeEndedLater", test: func(s *suite) {
			two(s)
			s.do(rejects(1, 1, 7), ends(rejects(1, 1, 7)))
			s.state(1, shard.Rejected)
		}},
		{name: "WhoRejectedItBeforeIsKept", test: func(s *suite) {
			two(s)
			s.do(NewHost(3, 8))
			first := rejection(1, s.do(rejects(1, 1, 7)).Claim.Verdict)
			s.keepsRejections(s.do(swapTo(1, 2)).Claim, first)
			second := rejection(2, s.do(rejects(1, 2, 8)).Claim.Verdict)
			s.keepsRejections(s.find(1), first)
			s.keepsRejections(s.do(swapTo(1, 3)).Claim, first, second)
			s.do(accepts(1, 3, 9))
			s.do(swapTo(1, 2)) // host 3 accepted it, so this is no rejection
			s.do(confirm(*Ref(1)))
			s.keepsRejections(s.find(1), first, second)
			s.do(release(*Ref(1)))
			s.keepsRejections(s.find(1), first, second)
		}},
		{name: "TheNewestRejectionsAreKept", test: func(s *suite) {
			two(s)
			var all []shard.Rejection
			for n := range shard.MaxRejections + 2 {
				host := 1 + n%2
				all = append(all, rejection(host, s.do(rejects(1, host, uint64(n+1))).Claim.Verdict))
				s.do(swapTo(1, 3-host))
			}
			s.keepsRejections(s.find(1), all[2:]...)
		}},
		{name: "ABadVerdictIsRefusedByField", test: func(s *suite) {
			two(s)
			for field, spoil := range map[string]func(*shard.RecordVerdict){
				"claim_id":        func(j *shard.RecordVerdict) { j.ClaimID = "" },
				"host_uuid":       func(j *shard.RecordVerdict) { j.HostUUID = "a b" },
				"verdict.outcome": func(j *shard.RecordVerdict) { j.Verdict.Outcome = "MAYBE" },
				"verdict.reason":  func(j *shard.RecordVerdict) { j.Verdict.Reason = "" },
				"verdict.detail":  func(j *shard.RecordVerdict) { j.Verdict.Detail = strings.Repeat("x", shard.MaxVerdictDetail+1) },
				"verdict.boot_id": func(j *shard.RecordVerdict) { j.Verdict.BootID = "" },
				"verdict.version": func(j *shard.RecordVerdict) { j.Verdict.Version = 1 << 63 },
				"end":             func(j *shard.RecordVerdict) { *j = *ends(accepts(1, 1, 1)) },
			} {
				j := rejects(1, 1, 7)
				spoil(j)
				s.namesField(j, field)
			}
		}},
	}
}
