package shardtest

import (
	"errors"
	"strings"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// setAdmin makes the operation that sets an operator's state of host n.
func setAdmin(n int, to shard.ConditionState) *shard.SetAdminState {
	return &shard.SetAdminState{HostUUID: HostID(n), State: to, Reason: "a bad disk", By: "alice"}
}

// setNova sets Nova's state of host n, with a reason if the state takes one.
func setNova(n int, to shard.ConditionState) *shard.SetNovaState {
	p := &shard.SetNovaState{HostUUID: HostID(n), State: to}
	if to == shard.ConditionDisabled || to == shard.ConditionForcedDown {
		p.Reason = "a bad fan"
	}
	return p
}

func endMaintenance(n int) *shard.EndMaintenance {
	return &shard.EndMaintenance{HostUUID: HostID(n)}
}

// admin returns host n's row of states, or nil if there is none.
func (s *suite) admin(n int) *shard.AdminState {
	s.Helper()
	return s.rows().AdminStates[HostID(n)]
}

func adminStateClauses() []clause {
	advance := []string{"advance"}
	return []clause{
		{name: "ItKeepsNewClaimsAwayAndSaysWhy", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			for to, why := range map[shard.ConditionState]string{
				shard.ConditionDisabled: "disabled by operator: a bad disk", shard.ConditionMaintenance: "in maintenance: a bad disk",
				shard.ConditionForcedDown: "forced down by operator: a bad disk",
			} {
				s.do(setAdmin(1, to))
				o := s.refused(NewClaim(1, 1, 1), fault.NoValidHost)
				if o.Refusal.Filter != "ComputeFilter" || o.Refusal.Detail != why || !strings.Contains(o.Refusal.Message, why) {
					s.Errorf("%s: refused with %+v", to, o.Refusal)
				}
			}
			s.do(NewClaim(1, 2, 1))
			s.refused(&shard.Swap{
				ClaimID: ClaimID(1), ConsumerUUID: ConsumerID(1), HostUUID: HostID(1), TTL: time.Minute,
				Allocations: []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: 1}},
			}, fault.NoValidHost)
			s.do(setAdmin(1, shard.ConditionEnabled), NewClaim(2, 1, 1))
		}},
		{name: "InTheBatchThatSetsItToo", test: func(s *suite) {
			a := s.apply(opOf(NewHost(1, 8)), opOf(NewClaim(1, 1, 1)), opOf(setAdmin(1, shard.ConditionDisabled)), opOf(NewClaim(2, 1, 1)))
			if a.Outcomes[1].Refusal != nil || a.Outcomes[3].Refusal == nil {
				s.Errorf("before it %+v, after it %+v", a.Outcomes[1].Refusal, a.Outcomes[3].Refusal)
			}
			s.used(1, 1)
		}},
		{name: "ClaimsThatAreThereGoOnAsEver", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			s.expired(4, 1, 1)
			for n := 1; n <= 3; n++ {
				s.do(NewClaim(n, 1, 1))
			}
			s.do(confirm(*Ref(3)), setAdmin(1, shard.ConditionForcedDown))
			s.do(NewClaim(1, 1, 1)) // a repeated claim
			s.do(confirm(*Ref(1)))
			s.do(confirm(*Ref(4))) // claim 4's lease was over, but its instance runs
			s.do(release(*Ref(2)))
			away := NewClaim(5, 2, 1)
			away.ConsumerUUID, away.Moves = ConsumerID(3), ClaimID(3)
			s.do(away, confirm(shard.ClaimRef{ClaimID: away.ClaimID, ConsumerUUID: away.ConsumerUUID}))
			s.state(3, shard.Released)
			s.used(1, 2)
			s.used(2, 1)
		}},
		{name: "NoReportOfTheHostTouchesIt", test: func(s *suite) {
			s.do(NewHost(1, 8))
			before := s.do(setAdmin(1, shard.ConditionMaintenance)).AdminState
			again := NewHost(1, 16)
			again.Host.BootID = "boot-2"
			again.Instances = []shard.Instance{{UUID: ConsumerID(7), Allocations: []shard.Used{{ProviderUUID: HostID(1), ResourceClass: Class, Amount: 2}}}}
			s.gives(again, shard.Outcome{Adopted: 1})
			imported := NewHost(1, 4)
			imported.Host.Imported, imported.Host.BootID = true, "import"
			s.do(moveGate(0, shard.GateLegacy), imported)
			if got := s.admin(1); !equalRows(got, before) {
				s.Errorf("the state is %+v, was %+v", got, before)
			}
			s.refused(NewClaim(1, 1, 1), fault.NoValidHost)
		}},
		{name: "OneOverAnOlderGenerationIsRefused", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			over := func(generation int64, to shard.ConditionState) *shard.SetAdminState {
				p := setAdmin(1, to)
				p.AsOf = generation
				return p
			}
			// A write that finds no row, or repeats the state, still makes older operations stale.
			first := s.do(over(1, shard.ConditionEnabled)).AdminState
			if first == nil || first.State != shard.ConditionEnabled || first.Generation != 3 {
				s.Fatalf("the state is %+v", first)
			}
			if o := s.refused(over(2, shard.ConditionDisabled), fault.StaleGeneration); o.Newest != 3 {
				s.Errorf("refused with generation %d, want 3", o.Newest)
			}
			again := s.do(over(3, shard.ConditionEnabled)).AdminState
			if again.Generation != 4 || !again.Since.Equal(first.Since) || again.By != first.By {
				s.Errorf("of %+v the same again makes %+v", first, again)
			}
			s.refused(over(3, shard.ConditionDisabled), fault.StaleGeneration)
			s.do(NewClaim(2, 1, 1)) // a claim raises the host's generation, not the row's
			s.do(over(4, shard.ConditionDisabled))
			s.do(setAdmin(1, shard.ConditionForcedDown)) // a write without AsOf replaces any state
			if o := s.refused(over(6, shard.ConditionEnabled), fault.StaleGeneration); o.Newest != 7 {
				s.Errorf("refused with generation %d, want 7", o.Newest)
			}
			s.do(setNova(1, shard.ConditionSilent)) // the row now has a higher generation
			s.refused(over(7, shard.ConditionEnabled), fault.StaleGeneration)
			if got := s.admin(1); got.State != shard.ConditionForcedDown || got.Generation != 8 {
				s.Errorf("the state is %+v", got)
			}
			s.do(over(100, shard.ConditionEnabled))
			s.namesField(over(-1, shard.ConditionEnabled), "as_of_generation")
		}},
		{name: "ItSaysWhoAndSinceWhenAndTheSameAgainIsNotWritten", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.nothing(setAdmin(1, shard.ConditionEnabled))
			first := s.do(setAdmin(1, shard.ConditionDisabled)).AdminState
			if first.By != "alice" || first.Reason != "a bad disk" || first.State != shard.ConditionDisabled || s.now().Before(first.Since) || first.Generation != 2 {
				s.Errorf("it is %+v", first)
			}
			s.Advance(time.Minute)
			s.nothing(setAdmin(1, shard.ConditionDisabled))
			other := setAdmin(1, shard.ConditionDisabled)
			other.Reason, other.By = "a bad fan", "bob"
			if got := s.do(other).AdminState; !got.Since.Equal(first.Since) || got.Reason != "a bad fan" || got.By != "bob" || got.Generation <= first.Generation {
				s.Errorf("for another reason it is %+v", got)
			}
			back := s.do(setAdmin(1, shard.ConditionEnabled)).AdminState
			if !back.Since.After(first.Since) || !equalRows(back, s.admin(1)) {
				s.Errorf("it went back as %+v, the row is %+v", back, s.admin(1))
			}
		}},
		{name: "AMaintenanceEndsInStoreTime", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8))
			for n, lasts := range []time.Duration{time.Hour, 0} {
				before := s.now()
				p := setAdmin(1, shard.ConditionMaintenance)
				if p.For = lasts; lasts == 0 {
					p.Until = before.Add(time.Hour)
				}
				a := s.do(p).AdminState
				if a.Until.Before(before.Add(time.Hour-time.Millisecond)) || a.Until.After(s.now().Add(time.Hour)) {
					s.Errorf("it ends at %v, an hour from %v", a.Until, before)
				}
				s.nothing(endMaintenance(1))
				s.refused(NewClaim(n, 1, 1), fault.NoValidHost)
				s.Advance(time.Hour + time.Second)
				// Nobody has written the maintenance's end yet.
				c := s.do(NewClaim(n, 1, 1)).Claim
				s.do(release(shard.ClaimRef{ClaimID: c.ClaimID, ConsumerUUID: c.ConsumerUUID}))
				if end := s.do(endMaintenance(1)).AdminState; end.State != shard.ConditionEnabled || !end.Since.Equal(a.Until) || !end.Until.IsZero() || end.By != "alice" {
					s.Errorf("it ended as %+v", end)
				}
				s.nothing(endMaintenance(1))
			}
		}},
		{name: "OneWithoutAnEndStays", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.nothing(endMaintenance(1))
			s.do(setAdmin(1, shard.ConditionMaintenance))
			s.Advance(400 * 24 * time.Hour)
			s.nothing(endMaintenance(1))
			s.refused(NewClaim(1, 1, 1), fault.NoValidHost)
		}},
		{name: "WhatNovaSaysStandsBesideIt", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.nothing(setNova(1, ""))
			a := s.do(setNova(1, shard.ConditionDisabled)).AdminState
			if a.State != shard.ConditionEnabled || a.Nova != shard.ConditionDisabled || a.NovaReason != "a bad fan" || !equalRows(a, s.admin(1)) {
				s.Errorf("it is %+v, the row is %+v", a, s.admin(1))
			}
			s.nothing(setNova(1, shard.ConditionDisabled))
			if r := s.refused(NewClaim(1, 1, 1), fault.NoValidHost).Refusal; r.Detail != "disabled in Nova: a bad fan" {
				s.Errorf("refused with %+v", r)
			}
			p := setAdmin(1, shard.ConditionMaintenance)
			p.For = time.Hour
			s.do(p)
			s.Advance(time.Hour + time.Second)
			s.refused(NewClaim(1, 1, 1), fault.NoValidHost) // only the maintenance is over
			if end := s.do(endMaintenance(1)).AdminState; end.State != shard.ConditionEnabled || end.Nova != shard.ConditionDisabled || end.NovaReason != "a bad fan" {
				s.Errorf("the maintenance ended as %+v", end)
			}
			s.refused(NewClaim(1, 1, 1), fault.NoValidHost)
			s.do(setAdmin(1, shard.ConditionForcedDown), setNova(1, ""))
			s.refused(NewClaim(1, 1, 1), fault.NoValidHost)
			s.do(setNova(1, shard.ConditionSilent))
			ends := setAdmin(1, shard.ConditionEnabled)
			ends.EndsNova = true
			if a := s.do(ends).AdminState; a.Nova != "" || a.NovaReason != "" {
				s.Errorf("let go it is %+v", a)
			}
			s.do(NewClaim(1, 1, 1))
		}},
		{name: "AnOlderReadingOfNovasChangesNothing", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8))
			began := s.now()
			at := func(after time.Duration, to shard.ConditionState) *shard.SetNovaState {
				p := setNova(1, to)
				p.At = began.Add(after)
				return p
			}
			is := func(p *shard.SetNovaState) {
				s.Helper()
				if a := s.do(p).AdminState; a.Nova != p.State || !a.NovaAt.Equal(p.At) || !equalRows(a, s.admin(1)) {
					s.Errorf("after %+v it is %+v, the row is %+v", p, a, s.admin(1))
				}
			}
			is(at(2*time.Second, shard.ConditionDisabled))
			s.nothing(at(time.Second, shard.ConditionForcedDown))
			s.nothing(at(time.Second, ""))
			is(at(2*time.Second, shard.ConditionForcedDown)) // two changes in one second
			is(at(3*time.Second, ""))
			s.nothing(at(2*time.Second, shard.ConditionDisabled))
			s.do(NewClaim(1, 1, 1))
			p := setAdmin(1, shard.ConditionMaintenance)
			p.For = time.Hour
			s.do(p)
			s.Advance(time.Hour + time.Second)
			s.do(endMaintenance(1))
			s.nothing(at(2*time.Second, shard.ConditionDisabled)) // an operator's change does not clear NovaAt
			is(setNova(1, shard.ConditionSilent))                 // a state without a time is accepted
			is(at(time.Second, shard.ConditionDisabled))
			is(at(48*time.Hour, shard.ConditionForcedDown)) // a time in the future blocks no later reading
			is(at(2*time.Hour, ""))
			ends := setAdmin(1, shard.ConditionEnabled)
			ends.EndsNova = true
			if a := s.do(ends).AdminState; !a.NovaAt.IsZero() {
				s.Errorf("let go it is %+v", a)
			}
			is(at(time.Second, shard.ConditionSilent))
		}},
		{name: "BadStatesOfNovasAreNamed", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.refused(setNova(2, shard.ConditionDisabled), fault.NotFound)
			s.namesField(&shard.SetNovaState{}, "host_uuid")
			s.namesField(setNova(1, "BROKEN"), "state")
			for _, reason := range []string{"\xff", "a\x00", strings.Repeat("ä", shard.MaxAdminText+1)} {
				p := setNova(1, shard.ConditionDisabled)
				p.Reason = reason
				s.namesField(p, "reason")
			}
			s.namesField(&shard.SetNovaState{HostUUID: HostID(1), State: shard.ConditionSilent, Reason: "x"}, "reason")
		}},
		{name: "ThatItsAgentIsSilentStandsBesideBoth", needs: advance, test: func(s *suite) {
			silent := func(is bool) *shard.SetSilent { return &shard.SetSilent{HostUUID: HostID(1), Silent: is} }
			s.refused(silent(true), fault.NotFound)
			s.namesField(&shard.SetSilent{}, "host_uuid")
			s.do(NewHost(1, 8))
			s.nothing(silent(false))
			a := s.do(silent(true)).AdminState
			if !a.Silent || a.State != shard.ConditionEnabled || a.Generation != 2 || !equalRows(a, s.admin(1)) {
				s.Errorf("it is %+v, the row is %+v", a, s.admin(1))
			}
			s.nothing(silent(true))
			s.do(NewClaim(1, 1, 1)) // a silent agent's host still takes claims: some replica may receive its heartbeat
			s.do(setNova(1, shard.ConditionSilent))
			p := setAdmin(1, shard.ConditionMaintenance)
			p.For = time.Hour
			s.do(p)
			s.Advance(time.Hour + time.Second)
			s.do(endMaintenance(1))
			ends := setAdmin(1, shard.ConditionEnabled)
			ends.EndsNova, ends.By = true, "bob"
			if a := s.do(ends).AdminState; !a.Silent || a.Nova != "" || a.By != "bob" {
				s.Errorf("after all other operations it is %+v", a)
			}
			back := s.do(silent(false)).AdminState
			if back.Silent || back.By != "bob" || !equalRows(back, s.admin(1)) {
				s.Errorf("not silent any more it is %+v, the row is %+v", back, s.admin(1))
			}
		}},
		{name: "NoAgentIsSilentWhereNoneSpeaks", test: func(s *suite) {
			h := NewHost(1, 8)
			h.Host.Imported, h.Host.BootID = true, "import"
			s.do(h)
			s.nothing(&shard.SetSilent{HostUUID: HostID(1), Silent: true})
			s.do(NewHost(1, 8), &shard.SetSilent{HostUUID: HostID(1), Silent: true})
		}},
		{name: "GenerationsOfAHostsRowsAreInOneOrder", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			used := s.rows().Usages[HostID(1)]
			a := s.do(setAdmin(1, shard.ConditionDisabled)).AdminState
			if after := s.rows().Usages[HostID(1)]; a.Generation != used.Generation+1 || after.Generation != a.Generation || after.Pending != 1 {
				s.Errorf("of usage %+v comes %+v and usage %+v", used, a, after)
			}
			s.do(putFacts(1, "cinder", `{}`))
			if n := s.namespaceOf(1, "cinder"); n.Generation != a.Generation+1 || !equalRows(s.admin(1), a) {
				s.Errorf("facts after it are %+v, beside %+v", n, s.admin(1))
			}
			s.used(1, 1)
		}},
		{name: "WhatIsBadIsRefusedByField", test: func(s *suite) {
			s.refused(setAdmin(1, shard.ConditionDisabled), fault.NotFound)
			s.refused(setAdmin(1, shard.ConditionEnabled), fault.NotFound)
			s.do(NewHost(1, 8))
			with := func(change func(*shard.SetAdminState)) *shard.SetAdminState {
				p := setAdmin(1, shard.ConditionMaintenance)
				change(p)
				return p
			}
			for _, bad := range []struct {
				field string
				op    *shard.SetAdminState
			}{
				{"host_uuid", with(func(p *shard.SetAdminState) { p.HostUUID = "" })},
				{"admin_state", with(func(p *shard.SetAdminState) { p.State = "" })},
				{"admin_state", with(func(p *shard.SetAdminState) { p.State = "BROKEN" })},
				{"reason", with(func(p *shard.SetAdminState) { p.Reason = "" })},
				{"reason", with(func(p *shard.SetAdminState) { p.Reason = "\xff" })},
				{"reason", with(func(p *shard.SetAdminState) { p.Reason = strings.Repeat("ä", shard.MaxAdminText+1) })},
				{"by", with(func(p *shard.SetAdminState) { p.By = "a\x00" })},
				{"by", with(func(p *shard.SetAdminState) { p.By = strings.Repeat("b", shard.MaxAdminText+1) })},
				{"until", with(func(p *shard.SetAdminState) { p.Until = s.now().Add(-time.Second) })},
				{"until", with(func(p *shard.SetAdminState) { p.Until = s.now().Add(shard.MaxMaintenance + time.Hour) })},
				{"until", with(func(p *shard.SetAdminState) { p.Until, p.For = s.now().Add(time.Hour), time.Hour })},
				{"until", with(func(p *shard.SetAdminState) { p.State, p.For = shard.ConditionDisabled, time.Hour })},
				{"lasts", with(func(p *shard.SetAdminState) { p.For = -time.Second })},
				{"lasts", with(func(p *shard.SetAdminState) { p.For = shard.MaxMaintenance + time.Second })},
			} {
				s.namesField(bad.op, bad.field)
			}
			if s.admin(1) != nil {
				s.Errorf("there is %+v", s.admin(1))
			}
			s.namesField(&shard.EndMaintenance{}, "host_uuid")
			s.do(with(func(p *shard.SetAdminState) { p.Reason = strings.Repeat("ä", shard.MaxAdminText) }))
			enable := setAdmin(1, shard.ConditionEnabled)
			enable.Reason = ""
			s.do(enable)
		}},
		{name: "NoClaimOfAnotherLaneSlipsBy", test: func(s *suite) {
			s.do(NewHost(1, 1000))
			const writers, times = 4, 20
			var all sync.WaitGroup
			var mu sync.Mutex
			late := 0
			set := make(chan struct{})
			for n := range writers {
				l := s.openLane(ServiceHost(n))
				all.Go(func() {
					for k := range times {
						known := false
						select {
						case <-set:
							known = true
						default:
						}
						a, err := l.Apply(s.ctx, []shard.Op{opOf(NewClaim(n*times+k, 1, 1))})
						if err != nil {
							s.Errorf("writer %d: %v", n, err)
							return
						}
						if known && a.Outcomes[0].Refusal == nil {
							mu.Lock()
							late++
							mu.Unlock()
						}
					}
				})
			}
			a, err := s.lane.Apply(s.ctx, []shard.Op{opOf(setAdmin(1, shard.ConditionDisabled))})
			if err == nil && a.Outcomes[0].Refusal != nil {
				err = errors.New(a.Outcomes[0].Refusal.Message)
			}
			close(set)
			all.Wait()
			if err != nil || late != 0 {
				s.Errorf("%d claims were made after it was done, %v", late, err)
			}
		}},
		{name: "ItIsThereAfterARestart", needs: []string{"reopen"}, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			p := setAdmin(1, shard.ConditionMaintenance)
			p.For = time.Hour
			a := s.do(p).AdminState
			s.do(setAdmin(2, shard.ConditionDisabled), setAdmin(2, shard.ConditionEnabled))
			s.do(&shard.SetSilent{HostUUID: HostID(2), Silent: true})
			before := s.rows()
			s.reopen()
			for _, d := range before.Diff(s.rows()) {
				s.Error(d)
			}
			if got := s.admin(1); !equalRows(got, a) {
				s.Errorf("there is %+v, was %+v", got, a)
			}
			s.refused(NewClaim(1, 1, 1), fault.NoValidHost)
			s.do(NewClaim(2, 2, 1))
		}},
	}
}
