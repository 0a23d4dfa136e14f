package shardtest

import (
	"math/rand/v2"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// lockClauses race for rows that already exist. The store refuses a second insert of a row by itself, but a
// transaction that changes an existing row must lock it.
func lockClauses() []clause {
	return []clause{
		{name: "I1_ConcurrentClaimsNeverExceedCapacity", test: capacityUnderConcurrency},
		{name: "I2_ConcurrentClaimsOfAConsumer", test: func(s *suite) {
			const lanes = 6
			r := s.racers(lanes)
			for round := range 10 {
				out := s.race(r, func(w int) any {
					c := NewClaim(round*lanes+w, w, 1)
					c.ConsumerUUID = ConsumerID(round)
					return c
				})
				for _, w := range s.oneWins(out) {
					for _, o := range out {
						if o.Refusal != nil && (o.Refusal.Kind != fault.AlreadyExists || o.Claim.ClaimID != out[w].Claim.ClaimID) {
							s.Errorf("round %d was won by %s, and one refused with %+v for %+v", round, out[w].Claim.ClaimID, o.Refusal, o.Claim)
						}
					}
				}
			}
		}},
		{name: "I2_ConcurrentClaimsOfAConsumerThatHadOne", test: func(s *suite) {
			const lanes, rounds = 4, 30
			r := s.racers(lanes)
			s.do(NewClaim(0, 0, 1), release(*Ref(0)))
			for round := range rounds {
				out := s.race(r, func(w int) any {
					c := NewClaim(1+round*lanes+w, w, 1)
					c.ConsumerUUID = ConsumerID(0)
					return c
				})
				for _, w := range s.oneWins(out) {
					s.do(release{ClaimID: out[w].Claim.ClaimID, ConsumerUUID: ConsumerID(0)})
				}
			}
		}},
		{name: "I9_AffinityHoldsUnderConcurrencyInAGroupThatHadMembers", test: func(s *suite) {
			const lanes, rounds = 4, 30
			r := s.racers(lanes)
			s.do(grouped(0, 0, "affinity", 0), release(*Ref(0)))
			for round := range rounds {
				first := 1 + round*lanes
				out := s.race(r, func(w int) any { return grouped(first+w, w, "affinity", 0) })
				on := map[string]bool{}
				for w, o := range out {
					if o.Refusal == nil && o.Claim != nil {
						on[o.Claim.HostUUID] = true
						s.do(release(*Ref(first + w)))
					}
				}
				if len(on) != 1 {
					s.Errorf("round %d has members on %v", round, on)
				}
			}
		}},
		{name: "I9_ConcurrentHoldersOfAPinAreAllKept", test: func(s *suite) {
			const lanes, rounds = 4, 30
			r := s.racers(lanes)
			s.do(newPin(0, "a"))
			for round := range rounds {
				first := 1 + round*lanes
				s.race(r, func(w int) any { return newPin(first+w, "a") })
				held := map[string]bool{}
				if p := s.rows().Pins[GroupID(1)]; p != nil {
					for _, h := range p.Holders {
						held[h.ClaimID] = true
					}
				}
				for w := range lanes {
					if !held[ClaimID(first+w)] {
						s.Errorf("round %d: the pin has lost claim %d", round, first+w)
					}
					s.do(unpin(first + w))
				}
			}
		}},
		{name: "I2_AnExpiredClaimAndANewOneOfItsConsumer", test: func(s *suite) {
			const rounds = 20
			r := s.racers(2)
			for round := range rounds {
				old, young := 2*round, 2*round+1
				s.do(NewClaim(old, 0, 1))
				s.Advance(2 * time.Minute)
				s.do(expire(*Ref(old)))
				c := NewClaim(young, 1, 1)
				c.ConsumerUUID = ConsumerID(old)
				out := s.race(r, func(w int) any {
					if w == 0 {
						return confirm(*Ref(old))
					}
					return c
				})
				if (out[0].Refusal == nil) == (out[1].Refusal == nil) {
					s.Errorf("round %d: both or neither of %+v and %+v", round, out[0].Refusal, out[1].Refusal)
				}
			}
		}},
		{name: "I2_ConcurrentTransfersToAConsumerThatHadAClaim", test: func(s *suite) {
			const lanes, rounds = 4, 20
			r := s.racers(lanes)
			s.do(NewClaim(0, 0, 1), release(*Ref(0)))
			for round := range rounds {
				first := 1 + round*lanes
				for w := range lanes {
					s.do(NewClaim(first+w, w, 1), confirm(*Ref(first + w)))
				}
				out := s.race(r, func(w int) any {
					return transferOf(first+w, first+w, 0)
				})
				s.oneWins(out)
				for w, o := range out {
					switch {
					case o.Refusal == nil:
						s.do(release{ClaimID: ClaimID(first + w), ConsumerUUID: ConsumerID(0)})
					case o.Refusal.Kind != fault.AlreadyExists:
						s.Errorf("refused with %+v", o.Refusal)
					default:
						s.do(release(*Ref(first + w)))
					}
				}
			}
		}},
	}
}

// capacityUnderConcurrency lets lanes claim and release at random on a few small hosts, while a reader loads the
// shard. No reader finds a provider over capacity. A batch may lose to others (CONTENDED), but no call returns
// CELL_UNAVAILABLE.
func capacityUnderConcurrency(s *suite) {
	const hosts, lanes, steps, capacity = 4, 6, 100, 10
	for h := range hosts {
		s.do(NewHost(h, capacity))
	}
	done := make(chan struct{})
	var reader, writers sync.WaitGroup
	reader.Go(func() {
		for {
			rows, _, err := LoadRows(s.ctx, s)
			if err != nil {
				s.Errorf("Load: %v", err)
				return
			}
			for _, w := range rows.Overfull() {
				s.Error(w)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	s.seed()
	var full, lost [lanes]int
	for w, l := range s.openLanes(lanes) {
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		writers.Go(func() {
			var mine []*shard.Claim
			for i := range steps {
				var ops []shard.Op
				for j := range 1 + rng.IntN(3) {
					if len(mine) > 0 && rng.IntN(2) == 0 {
						k := rng.IntN(len(mine))
						ops = append(ops, opOf(release{ClaimID: mine[k].ClaimID, ConsumerUUID: mine[k].ConsumerUUID}))
						mine = append(mine[:k], mine[k+1:]...)
						continue
					}
					ops = append(ops, opOf(NewClaim((w*steps+i)*3+j, rng.IntN(hosts), 1+rng.Int64N(4))))
				}
				a, err := l.Apply(s.ctx, ops)
				for ; fault.KindOf(err) == fault.Contended; a, err = l.Apply(s.ctx, ops) {
					lost[w]++
				}
				if err != nil {
					s.Errorf("Apply: %v", err)
					return
				}
				for _, o := range a.Outcomes {
					switch {
					case o.Refusal != nil && o.Refusal.Kind == fault.NoValidHost:
						full[w]++
					case o.Refusal != nil:
						s.Errorf("refused with %s: %s", o.Refusal.Kind, o.Refusal.Message)
					case o.Claim.State == shard.Pending:
						mine = append(mine, o.Claim)
					}
				}
			}
		})
	}
	writers.Wait()
	close(done)
	reader.Wait()
	s.Logf("claims that did not fit: %v, batches that were contended: %v", full, lost)
	if full == [lanes]int{} {
		s.Error("every claim fitted: the test proves nothing")
	}
}
