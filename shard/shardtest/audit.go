package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// releaseReportedGone makes the release of claim n for an instance that version v of host 1's agent no longer reports.
func releaseReportedGone(n int, v uint64) release {
	r := release(*Ref(n))
	r.ReportedGoneBy = &shard.Registration{BootID: "boot-1", StateVersion: v}
	return r
}

// reportClaim makes claim 1 on host 1, confirms it, and lets version 2 of the agent report it.
func (s *suite) reportClaim() {
	s.Helper()
	s.do(NewHost(1, 8), NewClaim(1, 1, 3), confirm(*Ref(1)), state(2, 8, map[int]int64{1: 3}))
}

func auditClauses() []clause {
	return []clause{
		{name: "TheSumOfTheLiveClaimsIsCompared", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3), NewClaim(2, 1, 2), NewClaim(3, 2, 2), confirm(*Ref(2)))
			s.do(NewClaim(4, 1, 1), release(*Ref(4)))
			a := s.nothing(&shard.Audit{HostUUID: HostID(1)}).Audited
			want := shard.Usage{HostUUID: HostID(1), Used: []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: 5}}, Pending: 1, Confirmed: 1}
			if a.Differs || !equalRows(&a.Sum, &want) || !equalRows(a.Usage, s.rows().Usages[HostID(1)]) {
				s.Errorf("differs %v, the sum is %+v, kept is %+v", a.Differs, a.Sum, a.Usage)
			}
		}},
		{name: "AHostThatIsNotThereIsEmpty", test: func(s *suite) {
			if a := s.nothing(&shard.Audit{HostUUID: HostID(9), Repair: true}).Audited; a.Usage != nil || a.Differs {
				s.Errorf("audited %+v", a)
			}
			s.refused(&shard.Audit{}, fault.InvalidRequest)
		}},
		{name: "ItSeesWhatStandsBeforeItInItsBatch", test: func(s *suite) {
			s.do(NewHost(1, 8))
			a := s.apply(opOf(NewClaim(1, 1, 3)), opOf(&shard.Audit{HostUUID: HostID(1)}), opOf(release(*Ref(1)))).Outcomes[1].Audited
			if a.Sum.Of(HostID(1), Class) != 3 || a.Usage.Of(HostID(1), Class) != 3 || a.Differs {
				s.Errorf("audited %+v", a)
			}
		}},
		{name: "UsageThatIsNotTheSumIsFoundAndRepaired", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			wrong := *s.rows().Usages[HostID(1)]
			wrong.Generation++
			wrong.Used, wrong.Confirmed = []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: 7}}, 4
			s.needs("damage", s.Damage != nil)
			s.Damage(s.T, &wrong)
			s.refused(NewClaim(2, 1, 2), fault.NoValidHost)
			a := s.nothing(&shard.Audit{HostUUID: HostID(1)}).Audited
			if !a.Differs || !equalRows(a.Usage, &wrong) || a.Sum.Of(HostID(1), Class) != 3 {
				s.Errorf("audited %+v", a)
			}
			done := s.apply(opOf(&shard.Audit{HostUUID: HostID(1), Repair: true}))
			u := s.rows().Usages[HostID(1)]
			if !done.Outcomes[0].Audited.Differs || len(done.Entry.Changes) != 1 || !equalRows(done.Entry.Changes[0].Usage, u) {
				s.Errorf("repaired by %+v", done)
			}
			if !shard.SameUse(u, &a.Sum) || u.Generation <= wrong.Generation {
				s.Errorf("usage is %+v after generation %d", u, wrong.Generation)
			}
			s.do(NewClaim(2, 1, 5))
			s.nothing(&shard.Audit{HostUUID: HostID(1), Repair: true})
		}},
		{name: "AClaimWhoseInstanceIsGoneIsReleased", test: func(s *suite) {
			s.reportClaim()
			s.do(state(3, 8, nil))
			s.state(1, shard.Confirmed)
			if c := s.do(releaseReportedGone(1, 3)).Claim; c.State != shard.Released {
				s.Errorf("claim is %+v", c)
			}
			s.used(1, 0)
			s.nothing(releaseReportedGone(1, 3))
		}},
		{name: "NotAfterAnotherReport", test: func(s *suite) {
			s.reportClaim()
			s.do(state(3, 8, nil), state(4, 8, map[int]int64{1: 3}))
			s.refused(releaseReportedGone(1, 3), fault.StaleGeneration)
			later := releaseReportedGone(1, 4)
			later.ReportedGoneBy.BootID = "boot-2"
			s.refused(later, fault.StaleGeneration)
			s.state(1, shard.Confirmed)
		}},
		{name: "NotOneThatNoReportHadBefore", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			s.refused(releaseReportedGone(1, 1), fault.StaleGeneration)
			s.do(confirm(*Ref(1)))
			s.refused(releaseReportedGone(1, 1), fault.StaleGeneration)
			s.state(1, shard.Confirmed)
		}},
		{name: "NotOneThatMovesOrWasTransferred", test: func(s *suite) {
			s.reportClaim()
			s.do(NewHost(2, 8))
			s.do(moving(2, 1, 2), state(3, 8, nil))
			s.refused(releaseReportedGone(1, 3), fault.StaleGeneration)
			s.do(release(refOf(2, 1)), transferOf(1, 1, 7))
			theirs := releaseReportedGone(1, 3)
			theirs.ConsumerUUID = ConsumerID(7)
			s.refused(theirs, fault.StaleGeneration)
			s.refused(releaseReportedGone(1, 3), fault.InvalidRequest)
			s.state(1, shard.Confirmed)
		}},
		{name: "ByADeletedRowOneThatNoReportHadBeforeAndOneThatMovesAreReleased", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3), confirm(*Ref(1)), moving(2, 1, 2))
			of := func(v uint64, at time.Time) release {
				r := releaseReportedGone(1, v)
				r.Deleted = at
				return r
			}
			written := s.find(1).UpdatedAt
			s.refused(of(1, written.Add(-time.Microsecond)), fault.StaleGeneration)
			s.refused(of(2, written), fault.StaleGeneration)
			s.state(1, shard.Confirmed)
			s.do(of(1, written))
			s.state(1, shard.Released)
			s.used(1, 0)
			s.state(2, shard.Pending)
		}},
		{name: "ByADeletedRowOneIsReleasedWhereNoAgentKnowsItsInstances", test: func(s *suite) {
			unknown := state(1, 8, nil)
			unknown.Host.InstancesUnknown = true
			for n, host := range []*shard.PutHost{imported(1, 8, nil), unknown} {
				s.do(host, NewClaim(n, 1, 3), confirm(*Ref(n)))
				byRow := releaseReportedGone(n, 7)
				s.refused(byRow, fault.StaleGeneration)
				byRow.Deleted = s.find(n).UpdatedAt.Add(-time.Microsecond)
				s.refused(byRow, fault.StaleGeneration)
				byRow.Deleted = s.find(n).UpdatedAt
				s.do(byRow)
				s.state(n, shard.Released)
				s.used(1, 0)
			}
		}},
		{name: "NoDeletedRowEndsOneThatIsPendingOrWasTransferred", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3))
			byRow := func() release {
				r := releaseReportedGone(1, 1)
				r.Deleted = s.now().Add(time.Hour)
				return r
			}
			s.refused(byRow(), fault.StaleGeneration)
			s.do(confirm(*Ref(1)), transferOf(1, 1, 7))
			theirs := byRow()
			theirs.ConsumerUUID = ConsumerID(7)
			s.refused(theirs, fault.StaleGeneration)
			s.state(1, shard.Confirmed)
		}},
		{name: "NotWhereInstancesAreUnknown", test: func(s *suite) {
			s.reportClaim()
			unknown := state(3, 8, nil)
			unknown.Host.InstancesUnknown = true
			s.do(unknown)
			s.refused(releaseReportedGone(1, 3), fault.StaleGeneration)
			s.state(1, shard.Confirmed)
		}},
		{name: "OneThatIsNotKnownLeavesNoTombstone", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.refused(releaseReportedGone(1, 1), fault.NotFound)
			s.do(NewClaim(1, 1, 3))
			s.state(1, shard.Pending)
		}},
	}
}
