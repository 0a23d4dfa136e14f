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

// transferOf makes the transfer of claim n from one consumer to another.
func transferOf(n, from, to int) *shard.Transfer {
	return &shard.Transfer{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(from), ToConsumer: ConsumerID(to)}
}

func moveClauses() []clause {
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
		{name: "AMoveWithinAHostHasHappenedWhenTheInstanceHasItsAmounts", test: func(s *suite) {
			s.do(state(1, 8, nil), NewClaim(1, 1, 3))
			s.gives(state(2, 8, map[int]int64{1: 3}), shard.Outcome{Confirmed: 1})
			resize := moving(2, 1, 1)
			s.do(resize)
			s.gives(state(3, 8, map[int]int64{1: 3}), shard.Outcome{})
			s.state(2, shard.Pending)
			s.used(1, 4)
			s.gives(state(4, 8, map[int]int64{1: 1}), shard.Outcome{Confirmed: 1})
			s.state(1, shard.Released)
			s.state(2, shard.Confirmed)
			s.used(1, 1)
		}},
		{name: "AClaimChangesItsConsumerAndNothingElse", test: func(s *suite) {
			s.do(NewHost(1, 8))
			made := s.do(grouped(1, 1, "anti-affinity", 1)).Claim
			c := s.do(transferOf(1, 1, 50)).Claim
			want := *made
			want.ConsumerUUID, want.TransferredFrom, want.UpdatedAt = ConsumerID(50), ConsumerID(1), c.UpdatedAt
			if !equalRows(c, &want) || !equalRows(c, s.find(1)) {
				s.Errorf("claim is %+v, found %+v, want %+v", c, s.find(1), want)
			}
			s.nothing(transferOf(1, 1, 50))
			for consumer, found := range map[int]int{1: 0, 50: 1} {
				p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(consumer)}})
				if err != nil || len(p.Claims) != found {
					s.Errorf("consumer %d has %d claims, %v", consumer, len(p.Claims), err)
				}
			}
			s.refused(confirm(*Ref(1)), fault.NotFound)
			s.Advance(2 * time.Minute)
			if due := s.due(10); len(due) != 1 || due[0].ConsumerUUID != ConsumerID(50) {
				s.Errorf("due are %v", due)
			}
			s.do(confirm(refOf(1, 50)), release(refOf(1, 50)))
			s.used(1, 0)
		}},
		{name: "TransferredBackItForgets", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 3), transferOf(1, 1, 50))
			if c := s.do(transferOf(1, 50, 51)).Claim; c.TransferredFrom != ConsumerID(1) {
				s.Errorf("transferred from %q", c.TransferredFrom)
			}
			if c := s.do(transferOf(1, 51, 1)).Claim; c.TransferredFrom != "" || c.ConsumerUUID != ConsumerID(1) {
				s.Errorf("claim is %+v", c)
			}
			s.used(1, 3)
		}},
		{name: "ABadTransferIsRefusedByField", test: func(s *suite) {
			for field, spoil := range map[string]func(*shard.Transfer){
				"claim_id":      func(f *shard.Transfer) { f.ClaimID = "" },
				"consumer_uuid": func(f *shard.Transfer) { f.ConsumerUUID = "" },
				"to_consumer":   func(f *shard.Transfer) { f.ToConsumer = "\n" },
			} {
				f := transferOf(1, 1, 2)
				spoil(f)
				s.namesField(f, field)
			}
		}},
	}
}
