package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// transferOf makes the transfer of claim n from one consumer to another.
func transferOf(n, from, to int) *shard.Transfer {
	return &shard.Transfer{ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(from), ToConsumer: ConsumerID(to)}
}

func transferClauses() []clause {
	return []clause{
		{name: "AClaimChangesItsConsumerAndNothingElse", needs: []string{"advance"}, test: func(s *suite) {
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
		{name: "I2_AConsumerWithAClaimTakesNoOther", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			second := s.do(NewClaim(2, 1, 1)).Claim
			s.inTheWay(transferOf(1, 1, 2), second)
			s.do(release(*Ref(2)), transferOf(1, 1, 2))
			n := NewClaim(3, 1, 1)
			n.ConsumerUUID = ConsumerID(2)
			s.refused(n, fault.AlreadyExists)
			n.ConsumerUUID = ConsumerID(1)
			s.do(n)
		}},
		{name: "OnlyALiveClaimOfThatConsumer", test: func(s *suite) {
			s.do(NewHost(1, 8))
			s.refused(transferOf(1, 1, 50), fault.NotFound)
			s.do(NewClaim(1, 1, 1))
			s.refused(transferOf(1, 2, 50), fault.NotFound)
			s.do(release(*Ref(1)))
			s.refused(transferOf(1, 1, 50), fault.ClaimExpired)
		}},
		{name: "OneOfAMoveIsTransferredAlone", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 1), confirm(*Ref(1)), moving(2, 1, 2), transferOf(1, 1, 50))
			s.refused(transferOf(1, 50, 1), fault.AlreadyExists)
			// The source now belongs to another consumer: the confirmed move does not release it.
			s.do(confirm(refOf(2, 1)))
			s.state(1, shard.Confirmed)
			s.do(release(refOf(1, 50)))
			s.used(1, 0)
		}},
		{name: "I9_ItStandsForItsInstance", test: func(s *suite) {
			for h := 1; h <= 3; h++ {
				s.do(NewHost(h, 8))
			}
			group := &shard.Group{UUID: GroupID(1), Policy: "anti-affinity", MaxPerHost: 1, Members: []string{ConsumerID(1), ConsumerID(2)}}
			s.do(NewClaim(1, 1, 1), transferOf(1, 1, 50))
			// Another member does not fit: the transferred claim still counts for consumer 1.
			other := NewClaim(2, 1, 1)
			other.Group = group
			s.refused(other, fault.NoValidHost)
			// The instance itself fits: this is a resize on the same host.
			own := NewClaim(3, 1, 1)
			own.ConsumerUUID, own.Group = ConsumerID(1), group
			s.do(own)
			s.refused(other, fault.NoValidHost)
		}},
		{name: "I9_AnInstanceLeavesWhatItTransferred", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), grouped(1, 1, "affinity", 0), transferOf(1, 1, 50))
			n := grouped(2, 2, "affinity", 0)
			s.refused(n, fault.NoValidHost)
			n.ConsumerUUID = ConsumerID(1)
			s.do(n)
		}},
		{name: "AReportedInstanceIsNotAdoptedBesideIt", test: func(s *suite) {
			s.do(NewHost(2, 8), state(1, 8, map[int]int64{1: 3}))
			p, err := s.FindClaims(s.ctx, shard.ClaimQuery{ConsumerUUIDs: []string{ConsumerID(1)}})
			if err != nil || len(p.Claims) != 1 {
				s.Fatalf("found %+v, %v", p, err)
			}
			s.do(&shard.Transfer{ClaimID: p.Claims[0].ClaimID, ConsumerUUID: ConsumerID(1), ToConsumer: ConsumerID(50)})
			s.gives(state(2, 8, map[int]int64{1: 3}), shard.Outcome{})
			// The new consumer releases the claim. A report without the instance does not.
			s.do(state(3, 8, nil))
			s.used(1, 3)
			// On the destination, the instance has a claim of its own.
			n := NewClaim(9, 2, 1)
			n.ConsumerUUID = ConsumerID(1)
			s.do(n)
			s.gives(state(4, 8, map[int]int64{1: 3}), shard.Outcome{})
			s.state(9, shard.Pending)
			dest := NewHost(2, 8)
			dest.Host.StateVersion, dest.Instances = 2, []shard.Instance{{UUID: ConsumerID(1)}}
			s.gives(dest, shard.Outcome{Confirmed: 1})
			s.state(9, shard.Confirmed)
			s.used(1, 3)
			s.do(release{ClaimID: p.Claims[0].ClaimID, ConsumerUUID: ConsumerID(50)})
			s.used(1, 0)
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
