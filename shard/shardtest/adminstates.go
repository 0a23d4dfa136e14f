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
			s.refused(swapTo(1, 1), fault.NoValidHost)
			s.do(setAdmin(1, shard.ConditionEnabled), NewClaim(2, 1, 1))
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
		{name: "ItSaysWhoAndSinceWhenAndTheSameAgainIsNotWritten", test: func(s *suite) {
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
	}
}
