package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// moveGate moves the gate of a revision to a state.
func moveGate(revision int64, to shard.GateState) *shard.MoveGate {
	return &shard.MoveGate{Revision: revision, State: to, Reason: "because"}
}

func gateClauses() []clause {
	return []clause{
		{name: "AGateIsKeptAsItIsMoved", test: func(s *suite) {
			if g := s.rows().Gates[""]; g != nil {
				s.Fatalf("a new shard has the gate %+v", g)
			}
			at := time.Unix(1_700_000_000, 123_456_000).UTC()
			m := &shard.MoveGate{
				State: shard.GateLegacy, Reason: "\u00e4n old service", Pin: shard.GateShadow, PinReason: "by hand",
				HeldSince: at, HeldUntil: at.Add(time.Second), Falls: 3, RowsAt: at.Add(time.Minute),
			}
			g := s.do(m).Gate
			got := s.rows().Gates[""]
			if g.Since.IsZero() || !equalRows(got, g) {
				s.Fatalf("the gate is %+v, answered was %+v", got, g)
			}
			want := shard.Gate{
				State: m.State, Epoch: 1, Revision: 1, Since: g.Since, Reason: m.Reason, Pin: m.Pin, PinReason: m.PinReason,
				HeldSince: m.HeldSince, HeldUntil: m.HeldUntil, Falls: 3, RowsAt: m.RowsAt,
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
				{Revision: 1, State: shard.GateNative, Falls: -1},
				{Revision: 1, State: shard.GateNative, Reason: "a\x00"},
			} {
				s.refused(bad, fault.InvalidRequest)
			}
		}},
		{name: "OneOfManyMovesTheGate", test: func(s *suite) {
			out := s.race(s.openLanes(6), func(w int) any {
				m := moveGate(0, shard.GateLegacy)
				m.Falls = int32(w)
				return m
			})
			s.oneWins(out)
			for _, o := range out {
				if o.Refusal != nil && o.Refusal.Kind != fault.StaleGeneration {
					s.Errorf("refused: %+v", o.Refusal)
				}
			}
			if g := s.rows().Gates[""]; g.Revision != 1 || g.Epoch != 1 {
				s.Errorf("the gate is %+v", g)
			}
		}},
	}
}
