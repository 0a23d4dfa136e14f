package shardtest

import (
	"slices"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// rootWrite creates root n with the given VCPU.
func rootWrite(n int, vcpus int64) shard.ProviderWrite {
	return shard.ProviderWrite{
		UUID: HostID(n), HostUUID: HostID(n), Create: true, Name: new(ServiceHost(n)),
		Inventories: &[]shard.Inventory{vcpuOf(vcpus)},
	}
}

func vcpuOf(n int64) shard.Inventory {
	return shard.Inventory{ResourceClass: Class, Total: n, MinUnit: 1, MaxUnit: max(1, n), StepSize: 1, AllocationRatio: 1}
}

func childWrite(n, host int) shard.ProviderWrite {
	return shard.ProviderWrite{
		UUID: ID('p', n), HostUUID: HostID(host), Create: true, Name: new("child"), Parent: new(HostID(host)), ParentHost: HostID(host),
		Inventories: &[]shard.Inventory{{ResourceClass: "VGPU", Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 2, AllocationRatio: 1}},
	}
}

func writeProviders(list ...shard.ProviderWrite) shard.Op {
	return shard.Op{WritePlacement: &shard.WritePlacement{Providers: list}}
}

func writeConsumers(list ...shard.ConsumerWrite) shard.Op {
	return shard.Op{WritePlacement: &shard.WritePlacement{Consumers: list}}
}

// on is an allocation of a root's VCPU.
func on(host int, vcpus int64) shard.RootAllocations {
	return shard.RootAllocations{HostUUID: HostID(host), Allocations: []shard.Used{{ProviderUUID: HostID(host), ResourceClass: Class, Amount: vcpus}}}
}

func holds(consumer int, list ...shard.RootAllocations) shard.ConsumerWrite {
	return shard.ConsumerWrite{UUID: ConsumerID(consumer), AnyGeneration: true, ProjectID: "p", UserID: "u", Allocations: list}
}

// atGeneration makes a write that names the consumer's expected generation. If it is 0, the consumer must hold
// nothing.
func atGeneration(w shard.ConsumerWrite, generation int64) shard.ConsumerWrite {
	w.AnyGeneration, w.Generation = false, nil
	if generation > 0 {
		w.Generation = &generation
	}
	return w
}

// denied runs a write that the store must refuse for a reason, without changing anything.
func (s *suite) denied(op shard.Op, kind fault.Kind, reason shard.PlacementReason) {
	s.Helper()
	if o := s.refused(op, kind); o.Refusal.Placement == nil || o.Refusal.Placement.Reason != reason {
		s.Fatalf("refused with %s (%+v), want %s", o.Refusal.Message, o.Refusal.Placement, reason)
	}
}

func (s *suite) provider(host int, uuid string) shard.Provider {
	s.Helper()
	h := s.rows().Hosts[HostID(host)]
	if h == nil {
		return shard.Provider{}
	}
	at := slices.IndexFunc(h.Providers, func(p shard.Provider) bool { return p.UUID == uuid })
	if at < 0 {
		return shard.Provider{}
	}
	return h.Providers[at]
}

// claimOf returns a consumer's live claim on a host, or nil if there is none.
func (s *suite) claimOf(consumer, host int) *shard.Claim {
	s.Helper()
	for _, c := range s.rows().Claims {
		if c.ConsumerUUID == ConsumerID(consumer) && c.HostUUID == HostID(host) {
			return c
		}
	}
	return nil
}

// importedHost makes an import of host n.
func importedHost(n int, vcpus int64, instances ...shard.Instance) *shard.PutHost {
	p := NewHost(n, vcpus)
	p.Host.Imported, p.Instances = true, instances
	return p
}

func placementClauses() []clause {
	return slices.Concat(placementProviderClauses(), placementConsumerClauses(), nameClauses())
}

func placementProviderClauses() []clause {
	const precondition, stale, missing = fault.FailedPrecondition, fault.StaleGeneration, fault.NotFound
	return []clause{
		{name: "ARootIsCreatedWrittenAndDeleted", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8)))
			h := s.rows().Hosts[HostID(1)]
			if h.TreeSource() != shard.TreeOfPlacement || h.ServiceHost != "" || h.Providers[0].Generation != 0 || h.Gone() {
				s.Errorf("created %+v", h)
			}
			s.denied(writeProviders(rootWrite(1, 8)), precondition, shard.DuplicateProvider)
			s.do(writeProviders(shard.ProviderWrite{UUID: HostID(1), HostUUID: HostID(1), Generation: new(int64(0)), Raise: 1, Traits: &[]string{"CUSTOM_A"}, Aggregates: &[]string{"agg"}}))
			s.denied(writeProviders(shard.ProviderWrite{UUID: HostID(1), HostUUID: HostID(1), Generation: new(int64(0)), Raise: 1, Traits: &[]string{}}), stale, shard.ProviderGeneration)
			if p := s.provider(1, HostID(1)); p.Generation != 1 || !slices.Equal(p.Traits, []string{"CUSTOM_A"}) || !slices.Equal(p.Aggregates, []string{"agg"}) || len(p.Inventories) != 1 {
				s.Errorf("written %+v", p)
			}
			s.do(writeProviders(shard.ProviderWrite{UUID: HostID(1), HostUUID: HostID(1), Delete: true}))
			if h := s.rows().Hosts[HostID(1)]; !h.Gone() {
				s.Errorf("deleted %+v", h)
			}
			s.denied(writeProviders(shard.ProviderWrite{UUID: HostID(1), HostUUID: HostID(1), Delete: true}), missing, shard.ProviderNotFound)
			s.do(writeProviders(rootWrite(1, 4)))
			if p := s.provider(1, HostID(1)); p.Generation != 0 || p.Inventories[0].Total != 4 {
				s.Errorf("created again %+v", p)
			}
		}},
		{name: "ATreeGrowsIsMovedAndShrinks", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8), rootWrite(2, 8), childWrite(1, 1)))
			grandchild := childWrite(2, 1)
			grandchild.Parent = new(ID('p', 1))
			s.do(writeProviders(grandchild))
			move := func(n, host int, parent string, to int) shard.Op {
				return writeProviders(shard.ProviderWrite{UUID: ID('p', n), HostUUID: HostID(host), Parent: &parent, ParentHost: HostID(to)})
			}
			s.denied(move(1, 1, ID('p', 2), 1), precondition, shard.ReparentRefused)
			s.denied(move(1, 1, ID('p', 9), 1), precondition, shard.ParentNotFound)
			s.denied(writeProviders(shard.ProviderWrite{UUID: ID('p', 1), HostUUID: HostID(1), Delete: true}), precondition, shard.ProviderHasChildren)
			s.do(move(1, 1, HostID(2), 2))
			if got := s.rows().Hosts[HostID(2)].Providers; len(got) != 3 || got[1].ParentUUID != HostID(2) || got[2].ParentUUID != ID('p', 1) {
				s.Errorf("moved to %+v", got)
			}
			if got := s.rows().Hosts[HostID(1)].Providers; len(got) != 1 {
				s.Errorf("left %+v", got)
			}
			s.do(writeProviders(shard.ProviderWrite{UUID: ID('p', 1), HostUUID: HostID(2), Parent: new("")}))
			if h := s.rows().Hosts[ID('p', 1)]; h == nil || h.TreeSource() != shard.TreeOfPlacement || len(h.Providers) != 2 {
				s.Errorf("became a root: %+v", h)
			}
			s.do(writeProviders(shard.ProviderWrite{UUID: ID('p', 1), HostUUID: ID('p', 1), Parent: new(HostID(1)), ParentHost: HostID(1)}))
			if got := s.rows().Hosts[HostID(1)].Providers; len(got) != 3 {
				s.Errorf("put under a root: %+v", got)
			}
		}},
		{name: "AReshapeMovesInventoriesAndAllocationsTogether", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8)), writeConsumers(holds(1, on(1, 2))))
			child := childWrite(1, 1)
			child.Inventories = &[]shard.Inventory{vcpuOf(8)}
			empty := shard.ProviderWrite{UUID: HostID(1), HostUUID: HostID(1), Inventories: &[]shard.Inventory{}}
			moved := holds(1, shard.RootAllocations{HostUUID: HostID(1), Allocations: []shard.Used{{ProviderUUID: ID('p', 1), ResourceClass: Class, Amount: 2}}})
			before := s.claimOf(1, 1)
			s.do(shard.Op{WritePlacement: &shard.WritePlacement{Providers: []shard.ProviderWrite{child, empty}, Consumers: []shard.ConsumerWrite{moved}}})
			if u := s.rows().Usages[HostID(1)]; u.Of(HostID(1), Class) != 0 || u.Of(ID('p', 1), Class) != 2 {
				s.Errorf("in use %+v", u)
			}
			if c := s.claimOf(1, 1); c.ClaimID != before.ClaimID {
				s.Errorf("claim %s became %s", before.ClaimID, c.ClaimID)
			}
		}},
		{name: "ARefusedWriteChangesNothing", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8)))
			s.denied(shard.Op{WritePlacement: &shard.WritePlacement{
				Providers: []shard.ProviderWrite{rootWrite(2, 4)}, Consumers: []shard.ConsumerWrite{holds(1, on(1, 2)), holds(2, on(2, 5))},
			}}, precondition, shard.InventoryRefused)
			if len(s.rows().Hosts) != 1 || len(s.rows().Claims) != 0 {
				s.Errorf("rows are %+v", s.rows())
			}
		}},
	}
}

func placementConsumerClauses() []clause {
	const precondition, stale, missing = fault.FailedPrecondition, fault.StaleGeneration, fault.NotFound
	return []clause{
		{name: "WhatAnInstanceGivesToItsMigrationIsTransferred", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8), rootWrite(2, 8)), importedHost(1, 8), importedHost(2, 8), NewClaim(1, 1, 2))
			s.do(confirm(*Ref(1)), writeConsumers(holds(1), holds(9, on(1, 2))))
			if c := s.find(1); c.ConsumerUUID != ConsumerID(9) || c.TransferredFrom != ConsumerID(1) || c.State != shard.Confirmed {
				s.Errorf("claim %+v", c)
			}
			// The instance is still on its old host: the import adopts nothing.
			same := importedHost(1, 8, shard.Instance{UUID: ConsumerID(1), Allocations: on(1, 2).Allocations})
			s.gives(same, shard.Outcome{Unchanged: true})
			second := NewClaim(2, 2, 2)
			second.ConsumerUUID = ConsumerID(1)
			s.do(second, writeConsumers(holds(9), holds(1, on(1, 2))))
			if c := s.find(1); c.ConsumerUUID != ConsumerID(1) || c.TransferredFrom != "" {
				s.Errorf("claim %+v", c)
			}
			s.state(2, shard.Released)
			s.used(1, 2)
			s.used(2, 0)
		}},
		{name: "WhileAMigrationHoldsTheSourceTheMoveOutlivesItsLease", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8), rootWrite(2, 8)), importedHost(1, 8), importedHost(2, 8), NewClaim(1, 1, 2))
			s.do(confirm(*Ref(1)), writeConsumers(holds(1), holds(9, on(1, 2))))
			moved := second(2, 1, 2, "")
			ref := shard.ClaimRef{ClaimID: ClaimID(2), ConsumerUUID: ConsumerID(1)}
			s.do(moved)
			s.Advance(time.Minute + time.Second)
			s.do(expire(ref))
			s.state(2, shard.Confirmed)
			if due := s.due(10); len(due) != 0 {
				s.Errorf("due are %v", due)
			}
			s.do(writeConsumers(holds(9), holds(1, on(1, 2)))) // the move failed
			s.state(2, shard.Released)
			s.do(second(3, 1, 2, ClaimID(1)))
			s.Advance(time.Minute + time.Second)
			s.do(expire(shard.ClaimRef{ClaimID: ClaimID(3), ConsumerUUID: ConsumerID(1)}))
			s.state(3, shard.Expired)
		}},
		// Nova deletes a migration's allocations when the migration is over. The rows of an import may be older.
		{name: "AfterAMigrationNeitherOlderRowsNorTheLeaseEndItsMove", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8), rootWrite(2, 8)), importedHost(1, 8), importedHost(2, 8), NewClaim(1, 1, 2))
			s.do(confirm(*Ref(1)), writeConsumers(holds(1), holds(9, on(1, 2))))
			s.do(second(2, 1, 2, ""), writeConsumers(holds(9)))
			s.gives(importedHost(1, 8, shard.Instance{UUID: ConsumerID(1), Allocations: on(1, 2).Allocations}), shard.Outcome{Unchanged: true, ClaimedElsewhere: 1})
			s.reopen()
			s.Advance(time.Minute + time.Second)
			s.do(expire(shard.ClaimRef{ClaimID: ClaimID(2), ConsumerUUID: ConsumerID(1)}))
			s.state(2, shard.Confirmed)
			s.used(1, 0)
		}},
		// Nova moves an instance's row to its old host before it moves the migration's allocations back to the instance.
		{name: "WhileAMigrationHoldsTheSourceAnImportWithoutTheInstanceLeavesItsClaim", test: func(s *suite) {
			instance := shard.Instance{UUID: ConsumerID(1), Allocations: on(1, 2).Allocations}
			s.do(writeProviders(rootWrite(1, 8), rootWrite(2, 8)), importedHost(1, 8), importedHost(2, 8), NewClaim(1, 1, 2))
			s.do(confirm(*Ref(1)), writeConsumers(holds(1), holds(9, on(1, 2))))
			s.do(second(2, 1, 2, ""), importedHost(2, 8, instance))
			s.do(importedHost(2, 8))
			s.state(2, shard.Confirmed)
			s.do(writeConsumers(holds(9), holds(1, on(1, 2))))
			s.state(2, shard.Released)
			s.used(1, 2)
			s.do(importedHost(1, 8, instance))
			s.do(importedHost(1, 8))
			s.state(1, shard.Released)
		}},
		// An evacuation has ended, and Nova reads the instance's allocations to migrate it, before an import sees the end.
		{name: "TheImportThatEndsAMoveLeavesTheConsumersGeneration", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8), rootWrite(2, 8)), importedHost(1, 8), importedHost(2, 8), NewClaim(1, 1, 2))
			s.do(confirm(*Ref(1)), second(2, 1, 2, ClaimID(1)))
			read := s.rows().Claims[ClaimID(2)].ConsumerGeneration
			s.do(importedHost(2, 8, shard.Instance{UUID: ConsumerID(1), Allocations: on(2, 1).Allocations}))
			s.state(1, shard.Released)
			s.do(writeConsumers(atGeneration(holds(1), read), atGeneration(holds(9, on(1, 2), on(2, 1)), 0)))
			if s.claimOf(9, 1) == nil || s.rows().Claims[ClaimID(2)].ConsumerUUID != ConsumerID(9) {
				s.Errorf("the migration holds %+v", s.rows().Claims)
			}
		}},
		// A resize within the host fails: the instance's former claim has its flavor and its dedicated CPUs.
		{name: "WhatAMigrationGivesBackReplacesTheInstancesClaimOnThatHost", test: func(s *suite) {
			k := &hardwareKinds[1]
			host := func(v uint64, pinned ...int) *shard.PutHost {
				p := hardwareHost(1, v, pinned...)
				p.Host.Imported = true
				return p
			}
			s.do(writeProviders(rootWrite(1, 8)), host(1), k.takes(1, 1, 1), confirm(*Ref(1)))
			has := host(2, 0)
			has.Instances = state(1, 8, map[int]int64{1: 1}).Instances
			s.do(has, writeConsumers(holds(1), holds(9, on(1, 1))))
			resize := k.takes(2, 1, 3)
			resize.ConsumerUUID, resize.Allocations = ConsumerID(1), on(1, 3).Allocations
			s.do(resize)
			s.full(k, k.takes(3, 1, 1))
			s.do(writeConsumers(holds(9), holds(1, on(1, 1))))
			s.state(2, shard.Released)
			if c := s.find(1); c.ConsumerUUID != ConsumerID(1) || c.TransferredFrom != "" || c.State != shard.Confirmed {
				s.Errorf("claim %+v", c)
			}
			s.used(1, 1)
			s.do(k.takes(3, 1, 3))
		}},
		// Rows of Nova's tables have VCPU, MEMORY_MB and DISK_GB, also where a host has PCPU alone or its disk is shared.
		{name: "AnAdoptedClaimTakesNothingThatThePlacementTreeLacks", test: func(s *suite) {
			both := shard.Instance{UUID: ConsumerID(1), Allocations: append(on(1, 2).Allocations, shard.Used{ProviderUUID: HostID(1), ResourceClass: "DISK_GB", Amount: 20})}
			s.do(writeProviders(rootWrite(1, 8)), importedHost(1, 8, both))
			s.used(1, 2)
			s.do(importedHost(1, 8, both))
			s.do(writeProviders(shard.ProviderWrite{UUID: HostID(1), HostUUID: HostID(1), Inventories: &[]shard.Inventory{vcpuOf(6)}}))
			s.do(writeConsumers(holds(1), holds(9, shard.RootAllocations{HostUUID: HostID(1), Allocations: s.claimOf(1, 1).Allocations})))
		}},
		{name: "I1_AllocationsObeyTheInventory", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 8), childWrite(1, 1)))
			vgpus := func(n int64) shard.RootAllocations {
				return shard.RootAllocations{HostUUID: HostID(1), Allocations: []shard.Used{{ProviderUUID: ID('p', 1), ResourceClass: "VGPU", Amount: n}}}
			}
			s.do(writeConsumers(holds(1, on(1, 8)), holds(3, vgpus(2))))
			s.denied(writeConsumers(holds(2, on(1, 1))), precondition, shard.CapacityExceeded)
			s.denied(writeConsumers(holds(2, vgpus(3))), precondition, shard.InventoryRefused)
			s.denied(writeConsumers(holds(2, on(7, 1))), missing, shard.ProviderNotFound)
			disk := on(1, 1)
			disk.Allocations[0].ResourceClass = "DISK_GB"
			s.denied(writeConsumers(holds(2, disk)), precondition, shard.InventoryMissing)
			// In one write, one consumer takes what another gives up.
			s.do(writeConsumers(holds(2, on(1, 8)), holds(1)))
			s.used(1, 8)
		}},
		{name: "I1_UnderConcurrencyTheInventoryHolds", test: func(s *suite) {
			s.do(writeProviders(rootWrite(1, 5)))
			done := 0
			for _, o := range s.race(s.openLanes(8), func(w int) any { return writeConsumers(atGeneration(holds(10+w, on(1, 1)), 0)) }) {
				if o.Refusal == nil {
					done++
				}
			}
			if done != 5 {
				s.Errorf("%d of 8 were given one of 5", done)
			}
			s.used(1, 5)
		}},
	}
}

// second makes claim n of consumer 'of' on a host. The claim moves another one unless moves is empty.
func second(n, of, host int, moves string) *shard.NewClaim {
	c := NewClaim(n, host, 1)
	c.ConsumerUUID, c.Moves = ConsumerID(of), moves
	return c
}

func nameClauses() []clause {
	class := shard.NameRef{Kind: shard.ClassName, Name: "CUSTOM_X"}
	trait := shard.NameRef{Kind: shard.TraitName, Name: "CUSTOM_X"}
	return []clause{
		{name: "ANameIsRegisteredOnceAndDeleted", test: func(s *suite) {
			s.gives(shard.Op{PutName: &class}, shard.Outcome{Created: true})
			s.changesNothing(shard.Op{PutName: &class}, shard.Outcome{})
			s.denied(shard.Op{DeleteName: &trait}, fault.NotFound, shard.TraitNotFound)
			s.do(shard.Op{PutName: &trait}, shard.Op{DeleteName: &class})
			s.denied(shard.Op{DeleteName: &class}, fault.NotFound, shard.ClassNotFound)
			if got := s.rows().Names; len(got) != 1 || got["TRAIT CUSTOM_X"] == nil {
				s.Errorf("names are %v", got)
			}
			s.refused(shard.Op{PutName: &shard.NameRef{Kind: "x", Name: "y"}}, fault.InvalidRequest)
		}},
		{name: "UnderConcurrencyOneMakesIt", test: func(s *suite) {
			made := 0
			for _, o := range s.race(s.openLanes(6), func(int) any { return shard.Op{PutName: &class} }) {
				if o.Created {
					made++
				}
			}
			if made != 1 {
				s.Errorf("%d made it", made)
			}
		}},
	}
}
