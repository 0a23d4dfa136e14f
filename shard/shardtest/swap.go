package shardtest

import (
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// swapTo makes the swap of claim n to a host, with one VCPU for two minutes.
func swapTo(n, host int) *shard.Swap {
	return &shard.Swap{
		ClaimID: ClaimID(n), ConsumerUUID: ConsumerID(n), HostUUID: HostID(host),
		Allocations: []shard.Used{{ProviderUUID: HostID(host), ResourceClass: Class, Amount: 1}},
		TTL:         2 * time.Minute, Answer: []byte("the new answer"),
	}
}

func swapClauses() []clause {
	advance := []string{"advance"}
	return []clause{
		{name: "OneHostIsGivenBackAndTheOtherTaken", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			made := s.do(grouped(1, 1, "anti-affinity", 1)).Claim
			s.Advance(30 * time.Second)
			c := s.do(swapTo(1, 2)).Claim
			if c.State != shard.Pending || c.HostUUID != HostID(2) || c.ServiceHost != ServiceHost(2) || string(c.Answer) != "the new answer" ||
				c.Allocations[0].ProviderUUID != HostID(2) || !equalRows(c.Group, made.Group) || c.RequestID != made.RequestID ||
				!c.CreatedAt.Equal(made.CreatedAt) || !c.ExpiresAt.Equal(c.UpdatedAt.Add(2*time.Minute)) {
				s.Errorf("claim is %+v", c)
			}
			if !equalRows(c, s.find(1)) {
				s.Errorf("the claim answered is %+v, the one found %+v", c, s.find(1))
			}
			s.used(1, 0)
			s.used(2, 1)
			if u := s.rows().Usages[HostID(1)]; u.Pending != 0 {
				s.Errorf("usage of the old host counts %d", u.Pending)
			}
			// The old lease has ended, the new one has not.
			s.Advance(time.Minute)
			if due := s.due(10); len(due) != 0 {
				s.Errorf("due are %v", due)
			}
			s.Advance(time.Minute)
			if due := s.due(10); len(due) != 1 {
				s.Errorf("due are %v", due)
			}
		}},
		{name: "OnThatHostAlreadyItIsAnsweredAsItIs", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3))
			s.nothing(swapTo(1, 1))
			first := s.do(swapTo(1, 2)).Claim
			if again := s.nothing(swapTo(1, 2)).Claim; !equalRows(first, again) {
				s.Errorf("first %+v, again %+v", first, again)
			}
			s.do(confirm(*Ref(1)))
			s.nothing(swapTo(1, 2))
			s.used(2, 1)
		}},
		{name: "I1_WhatDoesNotFitStaysWhereItIs", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 2))
			off := NewHost(3, 8)
			off.Host.Disabled = true
			s.do(off, NewClaim(1, 1, 3), NewClaim(2, 2, 2))
			s.refusedBy(swapTo(1, 2), "ResourceFilter", Class)
			s.refusedBy(swapTo(1, 3), "ComputeFilter", "disabled")
			s.refused(swapTo(1, 4), fault.NotFound)
			s.used(1, 3)
			s.state(1, shard.Pending)
		}},
		{name: "I9_ItsGroupMustAllowTheHost", test: func(s *suite) {
			for h := 1; h <= 3; h++ {
				s.do(NewHost(h, 8))
			}
			s.do(grouped(1, 1, "anti-affinity", 1), grouped(2, 2, "anti-affinity", 1))
			if r := s.refused(swapTo(1, 2), fault.NoValidHost).Refusal; r.Filter != "ServerGroupAntiAffinityFilter" {
				s.Errorf("refused by %q", r.Filter)
			}
			s.do(swapTo(1, 3))
			near := grouped(3, 1, "affinity", 0)
			near.Group.UUID = GroupID(2)
			s.do(near, swapTo(3, 2))
			next := grouped(4, 2, "affinity", 0)
			next.Group.UUID = GroupID(2)
			s.do(next)
			if r := s.refused(swapTo(3, 1), fault.NoValidHost).Refusal; r.Filter != "ServerGroupAffinityFilter" {
				s.Errorf("refused by %q", r.Filter)
			}
		}},
		{name: "I9_AMemberKnownFromElsewhereCounts", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(9, 2, 1))
			c := grouped(1, 1, "anti-affinity", 1)
			c.Group.Members = []string{ConsumerID(9)}
			s.do(c)
			s.refused(swapTo(1, 2), fault.NoValidHost)
			s.do(release(*Ref(9)), swapTo(1, 2))
		}},
		{name: "AnExpiredClaimComesBack", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			s.expired(1, 1, 3)
			s.do(swapTo(1, 2))
			s.state(1, shard.Pending)
			s.expired(2, 1, 3)
			s.do(swapTo(2, 1))
			s.used(1, 1)
			s.used(2, 1)
			s.do(confirm(*Ref(1)))
		}},
		{name: "I2_AnExpiredClaimIsLostToItsConsumersNext", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			s.expired(1, 1, 2)
			next := NewClaim(2, 1, 2)
			next.ConsumerUUID = ConsumerID(1)
			s.do(next)
			if c := s.refused(swapTo(1, 2), fault.AlreadyExists).Claim; c == nil || c.ClaimID != ClaimID(2) {
				s.Errorf("in the way is %+v", c)
			}
		}},
		{name: "AMoveIsSwappedBesideItsSource", needs: advance, test: func(s *suite) {
			for h := 1; h <= 3; h++ {
				s.do(NewHost(h, 8))
			}
			s.do(NewClaim(1, 1, 3), confirm(*Ref(1)), moving(2, 1, 2))
			to := swapTo(2, 3)
			to.ConsumerUUID = ConsumerID(1)
			if c := s.do(to).Claim; c.Moves != ClaimID(1) {
				s.Errorf("claim moves %q", c.Moves)
			}
			s.Advance(3 * time.Minute)
			s.do(expire(refOf(2, 1)))
			back := swapTo(2, 2)
			back.ConsumerUUID = ConsumerID(1)
			s.do(back, confirm(refOf(2, 1)))
			s.state(1, shard.Released)
			s.used(1, 0)
			s.used(2, 1)
			s.used(3, 0)
		}},
		{name: "I9_AnExpiredClaimOfAnAffinityGroupIsLost", needs: advance, test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), grouped(1, 1, "affinity", 1))
			s.Advance(2 * time.Minute)
			s.do(expire(*Ref(1)))
			s.refused(swapTo(1, 2), fault.ClaimExpired)
		}},
		{name: "AConfirmedClaimIsNotSwapped", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3), confirm(*Ref(1)))
			if c := s.refused(swapTo(1, 2), fault.AlreadyExists).Claim; c == nil || c.State != shard.Confirmed {
				s.Errorf("the claim answered is %+v", c)
			}
			s.used(1, 3)
		}},
		{name: "AReleasedClaimIsGone", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8), NewClaim(1, 1, 3), release(*Ref(1)))
			s.refused(swapTo(1, 2), fault.ClaimExpired)
		}},
		{name: "AnUnknownClaimIsNotFound", test: func(s *suite) {
			s.do(NewHost(1, 8), NewHost(2, 8))
			s.refused(swapTo(1, 2), fault.NotFound)
			s.do(NewClaim(1, 1, 3))
			to := swapTo(1, 2)
			to.ConsumerUUID = ConsumerID(2)
			s.refused(to, fault.NotFound)
		}},
		{name: "ABadSwapIsRefusedByField", test: func(s *suite) {
			for field, spoil := range map[string]func(*shard.Swap){
				"claim_id":              func(w *shard.Swap) { w.ClaimID = "" },
				"consumer_uuid":         func(w *shard.Swap) { w.ConsumerUUID = "a b" },
				"host_uuid":             func(w *shard.Swap) { w.HostUUID = "" },
				"allocations":           func(w *shard.Swap) { w.Allocations = nil },
				"allocations[0].amount": func(w *shard.Swap) { w.Allocations[0].Amount = 0 },
				"ttl":                   func(w *shard.Swap) { w.TTL = 2 * shard.MaxClaimTTL },
			} {
				w := swapTo(1, 1)
				spoil(w)
				s.namesField(w, field)
			}
		}},
	}
}
