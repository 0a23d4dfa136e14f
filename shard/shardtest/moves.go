package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// moving makes claim n, of one VCPU, on a host. It moves claim from of consumer from.
func moving(n, from, host int) *shard.NewClaim {
	c := NewClaim(n, host, 1)
	c.ConsumerUUID, c.Moves = ConsumerID(from), ClaimID(from)
	return c
}

// refOf names claim n, whose consumer has another number.
func refOf(n, consumer int) shard.ClaimRef {
	return shard.ClaimRef{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(consumer)}
}

func moveClauses() []clause {
	advance := []string{"advance"}
	return []clause{
		{name: "I2_AMoveDoublesUntilItIsConfirmed", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3), confirm(*Ref(1)))
			n := moving(2, 1, 2)
			n.MovesCell = "cell1"
			s.do(n)
			if c := s.find(2); c.Moves != ClaimID(1) || c.MovesCell != "cell1" || c.State != shard.Pending {
				s.Errorf("claim is %+v", c)
			}
			s.used(1, 3)
			s.used(2, 1)
			s.nothing(n)
			a := s.apply(opOf(confirm(refOf(2, 1))))
			if c := a.Outcomes[0].Claim; c == nil || c.ClaimID != ClaimID(2) || c.State != shard.Confirmed || c.Moves != ClaimID(1) {
				s.Errorf("outcome is %+v", a.Outcomes[0])
			}
			s.state(1, shard.Released)
			s.used(1, 0)
			s.used(2, 1)
			s.nothing(confirm(refOf(2, 1)))
		}},
		{name: "I2_AMoveIsBesideTheClaimItNamesAndNoOther", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			first := s.do(NewClaim(1, 1, 3)).Claim
			other := moving(2, 1, 2)
			other.Moves = ClaimID(9)
			s.inTheWay(other, first)
			move := s.do(moving(2, 1, 2)).Claim
			s.inTheWay(moving(3, 1, 2), move)
			third := moving(3, 1, 2)
			third.Moves = ClaimID(2)
			s.inTheWay(third, first)
			third.Moves = ""
			s.inTheWay(third, first)
			// The source has ended: the move now counts as the consumer's ordinary claim.
			s.do(release(*Ref(1)))
			s.inTheWay(moving(3, 1, 2), move)
			third.Moves = ClaimID(2)
			s.do(third)
		}},
		{name: "AMoveFromAnotherCellNeedsNothingHere", test: func(s *suite) {
			s.do(NewHost(2, 8))
			n := moving(2, 1, 2)
			n.MovesCell = "cell9"
			s.do(n, confirm(refOf(2, 1)))
			s.state(2, shard.Confirmed)
			s.state(1, "")
		}},
		{name: "EitherOfAMoveEndsAlone", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3), confirm(*Ref(1)), moving(2, 1, 2), release(refOf(2, 1)))
			s.state(1, shard.Confirmed)
			s.do(moving(3, 1, 2))
			s.Advance(2 * time.Minute)
			s.do(expire(refOf(3, 1)))
			s.state(1, shard.Confirmed)
			s.do(moving(4, 1, 2), release(*Ref(1)))
			s.state(4, shard.Pending)
			s.used(1, 0)
			s.used(2, 1)
		}},
		{name: "AnExpiredMoveIsConfirmedLateBesideItsSource", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3), confirm(*Ref(1)), moving(2, 1, 2))
			s.Advance(2 * time.Minute)
			s.do(expire(refOf(2, 1)), moving(3, 1, 2))
			s.refused(confirm(refOf(2, 1)), fault.ClaimExpired)
			s.do(release(refOf(3, 1)), confirm(refOf(2, 1)))
			s.state(1, shard.Released)
			s.used(1, 0)
			s.used(2, 1)
		}},
		{name: "AnExpiredSourceIsLostToItsMove", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3))
			n := moving(2, 1, 2)
			n.TTL = 10 * time.Minute
			s.do(n)
			s.Advance(2 * time.Minute)
			s.do(expire(*Ref(1)))
			s.refused(confirm(*Ref(1)), fault.ClaimExpired)
			s.do(confirm(refOf(2, 1)))
			s.state(1, shard.Expired)
		}},
		{name: "I1_AMoveIsBesideItsSourceOnTheSameHost", test: func(s *suite) {
			s.do(NewHost(1, 4), NewClaim(1, 1, 3))
			n := moving(2, 1, 1)
			n.Allocations[0].Amount = 2
			s.refused(n, fault.NoValidHost)
			s.do(moving(2, 1, 1))
			s.used(1, 4)
			s.do(confirm(refOf(2, 1)))
			s.used(1, 1)
		}},
		{name: "I9_AnInstanceMovesAwayFromItsAffinityGroupOnlyAlone", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), grouped(1, 1, "affinity", 0))
			n := moving(3, 1, 2)
			n.Group = &shard.Group{UUID: GroupID(1), Policy: "affinity", Members: []string{ConsumerID(1), ConsumerID(2)}}
			s.do(grouped(2, 1, "affinity", 0))
			s.refused(n, fault.NoValidHost)
			s.do(release(*Ref(2)), n)
			// The group is on two hosts at once, so no other member fits on either.
			s.refused(grouped(4, 1, "affinity", 0), fault.NoValidHost)
			s.do(confirm(refOf(3, 1)), grouped(4, 2, "affinity", 0))
		}},
		{name: "I9_AnInstanceStaysWhereItIsUnderAntiAffinity", test: func(s *suite) {
			h := NewHost(1, 8)
			h.Instances = []shard.Instance{{UUID: ConsumerID(8)}}
			s.do(h, NewHost(2, 8))
			group := &shard.Group{UUID: GroupID(1), Policy: "anti-affinity", MaxPerHost: 1, Members: []string{ConsumerID(1), ConsumerID(8)}}
			s.do(NewClaim(1, 1, 1), grouped(2, 2, "anti-affinity", 1))
			there, here := moving(3, 1, 2), moving(3, 1, 1)
			there.Group, here.Group = group, group
			s.refused(there, fault.NoValidHost)
			s.do(here)
		}},
		{name: "I9_AMoveCountsAsOneMemberOnAHost", test: func(s *suite) {
			s.do(NewHost(1, 8), grouped(1, 1, "anti-affinity", 2))
			n := moving(2, 1, 1)
			n.Group = grouped(1, 1, "anti-affinity", 2).Group
			s.do(n, grouped(3, 1, "anti-affinity", 2))
			s.refused(grouped(4, 1, "anti-affinity", 2), fault.NoValidHost)
		}},
		{name: "TheDestinationsReportConfirmsAndReleases", test: func(s *suite) {
			s.do(NewHost(2, 8), state(1, 8, nil), NewClaim(5, 2, 3), confirm(*Ref(5)), moving(6, 5, 1))
			source := NewHost(2, 8)
			source.Host.StateVersion, source.Instances = 2, []shard.Instance{{UUID: ConsumerID(5)}}
			s.gives(source, shard.Outcome{})
			s.state(5, shard.Confirmed)
			s.state(6, shard.Pending)
			s.gives(state(2, 8, map[int]int64{5: 1}), shard.Outcome{Confirmed: 1})
			s.state(5, shard.Released)
			s.state(6, shard.Confirmed)
			s.used(2, 0)
			s.used(1, 1)
		}},
		{name: "AReportOfAHostItMovesWithinSaysNothing", test: func(s *suite) {
			s.do(state(1, 8, map[int]int64{5: 3}))
			p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(5)}})
			if err != nil || len(p.Claims) != 1 {
				s.Fatalf("found %+v, %v", p, err)
			}
			n := moving(6, 5, 1)
			n.Moves = p.Claims[0].ClaimID
			s.do(n)
			s.gives(state(2, 8, map[int]int64{5: 1}), shard.Outcome{})
			s.state(6, shard.Pending)
			s.used(1, 4)
			s.do(confirm(refOf(6, 5)))
			s.used(1, 1)
		}},
		{name: "BothAreFoundByTheirConsumer", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1), moving(2, 1, 1))
			for _, ended := range []bool{false, true} {
				p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(1)}, Ended: ended})
				if err != nil || len(p.Claims) != 2 {
					s.Errorf("found %+v, %v", p.Claims, err)
				}
			}
		}},
		{name: "I2_ConcurrentMovesOfAConsumer", test: func(s *suite) {
			const lanes = 4
			r := s.racers(lanes)
			for round := range 10 {
				first := round * 100
				s.do(NewClaim(first, 0, 1))
				won := 0
				for _, a := range s.raceTimes(r, 1, func(w, _ int) []shard.Op {
					return []shard.Op{opOf(moving(first+1+w, first, w)), opOf(confirm(refOf(first+1+w, first)))}
				}) {
					if a[0].Outcomes[1].Refusal == nil {
						won++
					}
				}
				if won != 1 {
					s.Errorf("round %d has %d winners", round, won)
				}
				s.state(first, shard.Released)
			}
		}},
	}
}
