package shardtest

import (
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// moveGate moves the gate of a revision to a state.
func moveGate(revision int64, to shard.GateState) *shard.MoveGate {
	return &shard.MoveGate{Revision: revision, State: to, Reason: "because"}
}

// under makes claim n, planned under an epoch of the gate.
func under(epoch int64, n int) *shard.NewClaim {
	c := NewClaim(n, 1, 1)
	c.GateEpoch = epoch
	return c
}

func gateClauses() []clause {
	return []clause{
		{name: "AGateIsKeptAsItIsSaid", test: func(s *suite) {
			if g := s.rows().Gates[""]; g != nil {
				s.Fatalf("a new shard has the gate %+v", g)
			}
			at := time.Unix(1_700_000_000, 123_456_000).UTC()
			m := &shard.MoveGate{
				State: shard.GateLegacy, Reason: "\u00e4n old service", Pin: shard.GateShadow, PinReason: "by hand", ReturnTo: shard.GateNative,
				HeldSince: at, HeldUntil: at.Add(time.Second), Falls: 3,
			}
			g := s.do(m).Gate
			got := s.rows().Gates[""]
			if g.Since.IsZero() || !equalRows(got, g) {
				s.Fatalf("the gate is %+v, answered was %+v", got, g)
			}
			want := shard.Gate{
				State: m.State, Epoch: 1, Revision: 1, Since: g.Since, Reason: m.Reason, Pin: m.Pin, PinReason: m.PinReason, ReturnTo: m.ReturnTo,
				HeldSince: m.HeldSince, HeldUntil: m.HeldUntil, Falls: 3,
			}
			if !equalRows(g, &want) {
				s.Errorf("the gate is %+v, want %+v", g, want)
			}
		}},
		{name: "AMoveIsTheNextEpochAndAnyWriteTheNextRevision", test: func(s *suite) {
			first := s.do(moveGate(0, shard.GateLegacy)).Gate
			m := moveGate(1, shard.GateLegacy)
			m.Reason = "another"
			if g := s.do(m).Gate; g.Epoch != 1 || g.Revision != 2 || !g.Since.Equal(first.Since) || g.Reason != "another" {
				s.Errorf("a new reason makes %+v of %+v", g, first)
			}
			if g := s.do(moveGate(2, shard.GateShadow)).Gate; g.Epoch != 2 || g.Revision != 3 || g.Since.Before(first.Since) {
				s.Errorf("a move makes %+v", g)
			}
			if g := s.nothing(moveGate(3, shard.GateShadow)).Gate; g.Epoch != 2 || g.Revision != 3 {
				s.Errorf("the same again makes %+v", g)
			}
		}},
		{name: "OnlyWhoKnowsTheGateMovesIt", test: func(s *suite) {
			s.refused(moveGate(1, shard.GateNative), fault.StaleGeneration)
			s.do(moveGate(0, shard.GateLegacy))
			for _, revision := range []int64{0, 2} {
				if o := s.refused(moveGate(revision, shard.GateNative), fault.StaleGeneration); o.Gate == nil || o.Gate.State != shard.GateLegacy || o.Gate.Revision != 1 {
					s.Errorf("refused with the gate %+v", o.Gate)
				}
			}
			for _, bad := range []*shard.MoveGate{
				{Revision: 1},
				{Revision: 1, State: "OPEN"},
				{Revision: 1, State: shard.GateNative, Pin: "OPEN"},
				{Revision: 1, State: shard.GateNative, ReturnTo: "OPEN"},
				{Revision: 1, State: shard.GateNative, Falls: -1},
				{Revision: 1, State: shard.GateNative, Reason: "a\x00"},
			} {
				s.refused(bad, fault.InvalidRequest)
			}
		}},
		{name: "OneOfManyMovesTheGate", test: func(s *suite) {
			const movers = 6
			var moved sync.WaitGroup
			won := make(chan int64, movers)
			for n := range movers {
				l := s.openLane(ServiceHost(n))
				moved.Go(func() {
					m := moveGate(0, shard.GateLegacy)
					m.Falls = int32(n)
					a, err := l.Apply(s.ctx, []shard.Op{{MoveGate: m}})
					switch {
					case err != nil:
						s.Errorf("Apply: %v", err)
					case a.Outcomes[0].Refusal == nil:
						won <- a.Entry.At.UnixNano()
					case a.Outcomes[0].Refusal.Kind != fault.StaleGeneration:
						s.Errorf("refused: %+v", a.Outcomes[0].Refusal)
					}
				})
			}
			moved.Wait()
			if g := s.rows().Gates[""]; len(won) != 1 || g.Revision != 1 || g.Epoch != 1 {
				s.Errorf("%d of %d made the gate, which is %+v", len(won), movers, g)
			}
		}},
		{name: "AClaimOfAnotherEpochIsRefusedWhateverElseIsToBeSaid", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.refused(under(1, 1), fault.StaleGeneration)
			s.do(under(0, 2))
			s.do(moveGate(0, shard.GateLegacy))
			s.refused(under(0, 1), fault.StaleGeneration)
			taken := under(0, 3)
			taken.ConsumerUUID = ConsumerID(2)
			s.refused(taken, fault.StaleGeneration)
			gone := under(0, 3)
			gone.HostUUID = HostID(9)
			s.refused(gone, fault.StaleGeneration)
			large := under(0, 3)
			large.Allocations[0].Amount = 100
			s.refused(large, fault.StaleGeneration)
			s.do(under(1, 1))
			s.do(moveGate(1, shard.GateShadow))
			s.refused(under(1, 3), fault.StaleGeneration)
			s.do(under(2, 3))
			s.used(1, 3)
		}},
		{name: "AClaimThatIsMadeIsAnsweredUnderAnyEpoch", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.do(under(0, 1))
			s.do(moveGate(0, shard.GateLegacy))
			s.nothing(under(0, 1))
			s.do(confirm(*Ref(1)))
			s.do(release(*Ref(1)))
		}},
		{name: "AMoveAndClaimsInOneBatchAreInOrder", test: func(s *suite) {
			s.do(NewHost(1, 8))
			a := s.apply(opOf(under(0, 1)), opOf(moveGate(0, shard.GateLegacy)), opOf(under(0, 2)), opOf(under(1, 3)))
			for n, want := range []fault.Kind{"", "", fault.StaleGeneration, ""} {
				var got fault.Kind
				if r := a.Outcomes[n].Refusal; r != nil {
					got = r.Kind
				}
				if got != want {
					s.Errorf("operation %d ends as %q, want %q", n, got, want)
				}
			}
		}},
		{name: "NoClaimOfAnOldEpochFollowsOneOfTheNew", test: claimsBesideMoves},
	}
}

// claimsBesideMoves lets lanes claim on one host under the epoch that they last heard
// of while another moves the gate: the claims of the host, in the order in which it was
// written (its usage's generation), never go back an epoch.
func claimsBesideMoves(s *suite) {
	const claimers, each, moves = 4, 25, 12
	s.do(NewHost(1, 1000))
	var all sync.WaitGroup
	var mu sync.Mutex
	epochs := map[int64]int64{} // by generation
	stale := 0
	for w := range claimers {
		l := s.openLane(ServiceHost(w))
		all.Go(func() {
			epoch := int64(0)
			for i := range each {
				a, err := l.Apply(s.ctx, []shard.Op{opOf(under(epoch, w*each+i))})
				if err != nil {
					s.Errorf("Apply: %v", err)
					return
				}
				if r := a.Outcomes[0].Refusal; r != nil {
					if r.Kind != fault.StaleGeneration {
						s.Errorf("refused: %+v", r)
					}
					rows, _, err := LoadRows(s.ctx, s)
					if err != nil {
						s.Errorf("Load: %v", err)
						return
					}
					epoch = rows.Gates[""].EpochOf()
					mu.Lock()
					stale++
					mu.Unlock()
					continue
				}
				for _, c := range a.Entry.Changes {
					if c.Usage != nil {
						mu.Lock()
						epochs[c.Usage.Generation] = epoch
						mu.Unlock()
					}
				}
			}
		})
	}
	all.Go(func() {
		l := s.openLane("mover")
		for n := range int64(moves) {
			to := []shard.GateState{shard.GateLegacy, shard.GateShadow}[n%2]
			if a, err := l.Apply(s.ctx, []shard.Op{opOf(moveGate(n, to))}); err != nil || a.Outcomes[0].Refusal != nil {
				s.Errorf("move %d: %+v, %v", n, a.Outcomes, err)
				return
			}
		}
	})
	all.Wait()
	var last int64
	for g := range int64(claimers*each + 2) {
		if e, ok := epochs[g]; ok {
			if e < last {
				s.Errorf("the claim of generation %d is of epoch %d, after one of epoch %d", g, e, last)
			}
			last = e
		}
	}
	s.Logf("%d claims made, %d refused for their epoch", len(epochs), stale)
}
