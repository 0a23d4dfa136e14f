package shardtest

import (
	"context"
	"errors"
	"sync"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func laneClauses() []clause {
	return []clause{
		{name: "EveryLaneIsANewIncarnation", test: func(s *suite) {
			a, b, c := s.openLane("a"), s.openLane("a"), s.openLane("b")
			if a.ID().Replica != "a" || c.ID().Replica != "b" {
				s.Errorf("lanes are %v and %v", a.ID(), c.ID())
			}
			if a.ID() == b.ID() || b.ID().Incarnation <= a.ID().Incarnation {
				s.Errorf("two incarnations of one replica are %v, %v", a.ID(), b.ID())
			}
		}},
		{name: "AReplicaHasAName", test: func(s *suite) {
			if _, err := s.OpenLane(s.ctx, ""); fault.KindOf(err) != fault.InvalidRequest {
				s.Errorf("OpenLane without a name: %v", err)
			}
		}},
		{name: "NothingAppliedIsNothingWritten", test: func(s *suite) {
			if a := s.apply(); a.Entry.Seq != 0 || len(a.Outcomes) != 0 {
				s.Errorf("applied %+v", a)
			}
		}},
		{name: "AnEntryHasEachRowOnceAsItIsInTheEnd", test: func(s *suite) {
			a := s.apply(opOf(NewHost(1, 8)), opOf(NewClaim(1, 1, 1)), opOf(NewClaim(2, 1, 2)), opOf(confirm(*Ref(1))), opOf(newPin(1, "a")), opOf(unpin(1)))
			if a.Entry.Lane != s.lane.ID() || a.Entry.Seq != 1 || a.Entry.At.IsZero() {
				s.Errorf("entry is %+v", a.Entry)
			}
			// The entry has a host, its usage, two claims and a pin without holders.
			if n := len(a.Entry.Changes); n != 5 {
				s.Fatalf("entry has %d changes: %+v", n, a.Entry.Changes)
			}
			for _, c := range a.Entry.Changes {
				switch {
				case c.Usage != nil && c.Usage.Of(HostID(1), Class) != 3:
					s.Errorf("usage is %+v", c.Usage)
				case c.Claim != nil && c.Claim.ClaimID == ClaimID(1) && c.Claim.State != shard.Confirmed:
					s.Errorf("claim is %+v", c.Claim)
				case c.Pin != nil && len(c.Pin.Holders) != 0:
					s.Errorf("pin is %+v", c.Pin)
				}
			}
		}},
		{name: "OneApplyAtATime", test: func(s *suite) {
			s.do(NewHost(1, 1000))
			var wg sync.WaitGroup
			var mu sync.Mutex
			seen := map[uint64]bool{}
			for w := range 8 {
				wg.Go(func() {
					for i := range 10 {
						a, err := s.lane.Apply(s.ctx, []shard.Op{opOf(NewClaim(w*10+i, 1, 1))})
						if err != nil {
							s.Errorf("Apply: %v", err)
							return
						}
						mu.Lock()
						if seen[a.Entry.Seq] {
							s.Errorf("two entries are %d", a.Entry.Seq)
						}
						seen[a.Entry.Seq] = true
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			for seq := uint64(2); seq <= 81; seq++ {
				if !seen[seq] {
					s.Errorf("no entry is %d", seq)
				}
			}
			s.used(1, 80)
		}},
		{name: "AContextThatEndedWritesNothing", test: func(s *suite) {
			ctx, cancel := context.WithCancel(s.ctx)
			cancel()
			if _, err := s.lane.Apply(ctx, []shard.Op{opOf(NewHost(1, 8))}); !errors.Is(err, context.Canceled) {
				s.Errorf("Apply: %v", err)
			}
			if n := len(s.rows().Hosts); n != 0 {
				s.Errorf("%d hosts were written", n)
			}
			if _, err := s.Load(ctx, func(shard.Change) error { return nil }); err != nil && !errors.Is(err, context.Canceled) {
				s.Errorf("Load: %v", err)
			}
		}},
		{name: "AClosedStoreIsUnavailable", test: func(s *suite) {
			old := s.Instance
			oldLane := s.lane
			s.reopen()
			for what, call := range map[string]func() error{
				"Now":           func() error { _, err := old.Now(s.ctx); return err },
				"OpenLane":      func() error { _, err := old.OpenLane(s.ctx, "a"); return err },
				"Apply":         func() error { _, err := oldLane.Apply(s.ctx, []shard.Op{opOf(NewHost(1, 8))}); return err },
				"Load":          func() error { _, err := old.Load(s.ctx, func(shard.Change) error { return nil }); return err },
				"FindClaims":    func() error { _, err := old.FindClaims(s.ctx, shard.ClaimQuery{}); return err },
				"Due":           func() error { _, err := old.Due(s.ctx, 1); return err },
				"Tail":          func() error { _, _, err := old.Tail(s.ctx, nil, 1); return err },
				"Trim":          func() error { return old.Trim(s.ctx, oldEnough) },
				"PutDecisions":  func() error { return old.PutDecisions(s.ctx, []shard.Decision{NewDecision(1)}) },
				"FindDecisions": func() error { _, err := old.FindDecisions(s.ctx, shard.DecisionQuery{}); return err },
				"TrimDecisions": func() error { return old.TrimDecisions(s.ctx, oldEnough, 1) },
			} {
				if err := call(); fault.KindOf(err) != fault.CellUnavailable {
					s.Errorf("%s after Close: %v, want %s", what, err, fault.CellUnavailable)
				}
			}
			if err := old.Close(); err != nil {
				s.Errorf("closing again: %v", err)
			}
			if n := len(s.rows().Hosts); n != 0 {
				s.Errorf("%d hosts were written by a closed store", n)
			}
		}},
	}
}
