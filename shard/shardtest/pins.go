package shardtest

import (
	"fmt"
	"slices"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func newPin(claim int, host string) *shard.NewPin {
	return &shard.NewPin{GroupUUID: GroupID(1), ServiceHost: host, ClaimID: ClaimID(claim), TTL: time.Minute}
}

func unpin(claim int) *shard.Unpin {
	return &shard.Unpin{GroupUUID: GroupID(1), ClaimID: ClaimID(claim)}
}

func pinClauses() []clause {
	return []clause{
		{name: "I9_APinBindsTheGroupToOneHost", test: func(s *suite) {
			if o := s.do(newPin(1, "a")); o.PinnedTo != "a" {
				s.Errorf("pinned to %q", o.PinnedTo)
			}
			if o := s.refused(newPin(2, "b"), fault.Contended); o.PinnedTo != "a" || !slices.Equal(o.PinHolders, []string{ClaimID(1)}) {
				s.Errorf("pinned to %q by %v", o.PinnedTo, o.PinHolders)
			}
			if p := s.rows().Pins[GroupID(1)]; p == nil || p.ServiceHost != "a" || len(p.Holders) != 1 {
				s.Errorf("pin is %+v", p)
			}
		}},
		{name: "TheSameHostJoins", test: func(s *suite) {
			s.do(newPin(1, "a"), newPin(2, "a"), unpin(1))
			s.refused(newPin(3, "b"), fault.Contended)
			s.do(unpin(2))
			if p := s.rows().Pins[GroupID(1)]; p != nil {
				s.Errorf("pin is %+v", p)
			}
			s.do(newPin(3, "b"))
		}},
		{name: "AgainExtendsAndNeverShortens", test: func(s *suite) {
			s.do(newPin(1, "a"))
			s.Advance(30 * time.Second)
			s.do(newPin(1, "a"))
			s.Advance(40 * time.Second)
			s.refused(newPin(2, "b"), fault.Contended)
			short := newPin(1, "a")
			short.TTL = time.Second
			s.nothing(short)
			s.Advance(15 * time.Second)
			s.refused(newPin(2, "b"), fault.Contended)
		}},
		{name: "UnpinAgainDoesNothing", test: func(s *suite) {
			s.nothing(unpin(1))
			s.do(newPin(1, "a"))
			s.nothing(unpin(2))
			s.do(unpin(1))
			s.nothing(unpin(1))
		}},
		{name: "I9_UnderConcurrencyOneHostWins", test: func(s *suite) {
			out := s.race(s.openLanes(8), func(w int) any { return newPin(w, fmt.Sprintf("host-%d", w)) })
			for _, o := range out {
				if o.PinnedTo == "" || o.PinnedTo != out[0].PinnedTo {
					s.Errorf("pinned to %+v", out)
				}
			}
		}},
	}
}
