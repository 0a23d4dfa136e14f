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
	return []clause{
		{name: "OneHostIsGivenBackAndTheOtherTaken", test: func(s *suite) {
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
