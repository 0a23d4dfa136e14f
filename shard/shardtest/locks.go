package shardtest

import (
	"fmt"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// lockClauses are races for rows that are there already. Who makes a row second is
// told so by the store; who changes one that is there must have locked it.
func lockClauses() []clause {
	return []clause{
		{name: "I2_ConcurrentClaimsOfAConsumerThatHadOne", test: func(s *suite) {
			const lanes, rounds = 4, 30
			r := newRace(s, lanes)
			s.do(NewClaim(0, 0, 1), release(*Ref(0)))
			for round := range rounds {
				out := r.run(func(w int) any {
					c := NewClaim(1+round*lanes+w, w, 1)
					c.ConsumerUUID = ConsumerID(0)
					return c
				})
				var won []string
				for _, o := range out {
					if o.Refusal == nil && o.Claim != nil {
						won = append(won, o.Claim.ClaimID)
					}
				}
				if len(won) != 1 {
					s.Errorf("round %d was won by %v", round, won)
				}
				for _, id := range won {
					s.do(release{ClaimID: id, ConsumerUUID: ConsumerID(0)})
				}
			}
		}},
		{name: "I9_AffinityHoldsUnderConcurrencyInAGroupThatHadMembers", test: func(s *suite) {
			const lanes, rounds = 4, 30
			r := newRace(s, lanes)
			s.do(grouped(0, 0, "affinity", 0), release(*Ref(0)))
			for round := range rounds {
				first := 1 + round*lanes
				out := r.run(func(w int) any { return grouped(first+w, w, "affinity", 0) })
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
			r := newRace(s, lanes)
			s.do(newPin(0, "a"))
			for round := range rounds {
				first := 1 + round*lanes
				r.run(func(w int) any { return newPin(first+w, "a") })
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
		{name: "I2_AnExpiredClaimAndANewOneOfItsConsumer", needs: []string{"advance"}, test: func(s *suite) {
			const rounds = 20
			r := newRace(s, 2)
			for round := range rounds {
				old, young := 2*round, 2*round+1
				s.do(NewClaim(old, 0, 1))
				s.Advance(2 * time.Minute)
				s.do(expire(*Ref(old)))
				c := NewClaim(young, 1, 1)
				c.ConsumerUUID = ConsumerID(old)
				out := r.run(func(w int) any {
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
			r := newRace(s, lanes)
			s.do(NewClaim(0, 0, 1), release(*Ref(0)))
			for round := range rounds {
				first := 1 + round*lanes
				for w := range lanes {
					s.do(NewClaim(first+w, w, 1), confirm(*Ref(first + w)))
				}
				out := r.run(func(w int) any {
					return transferOf(first+w, first+w, 0)
				})
				var won []int
				for w, o := range out {
					switch {
					case o.Refusal == nil:
						won = append(won, w)
						s.do(release{ClaimID: ClaimID(first + w), ConsumerUUID: ConsumerID(0)})
					case o.Refusal.Kind != fault.AlreadyExists:
						s.Errorf("refused with %+v", o.Refusal)
					default:
						s.do(release(*Ref(first + w)))
					}
				}
				if len(won) != 1 {
					s.Errorf("round %d was won by %v", round, won)
				}
			}
		}},
	}
}

// race is lanes that do something at the same moment, each on a host of its own.
type race struct {
	*suite
	lanes []shard.Lane
}

func newRace(s *suite, lanes int) *race {
	r := &race{suite: s}
	for w := range lanes {
		s.do(NewHost(w, 1000))
		r.lanes = append(r.lanes, s.openLane(fmt.Sprintf("racer-%d", w)))
	}
	return r
}

// run has each lane do its operation, and gives the outcomes by lane.
func (r *race) run(op func(lane int) any) []shard.Outcome {
	r.Helper()
	out := make([]shard.Outcome, len(r.lanes))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for w, l := range r.lanes {
		o := opOf(op(w))
		wg.Go(func() {
			<-start
			a, err := l.Apply(r.ctx, []shard.Op{o})
			if err != nil {
				r.Errorf("Apply: %v", err)
				return
			}
			out[w] = a.Outcomes[0]
		})
	}
	close(start)
	wg.Wait()
	return out
}
