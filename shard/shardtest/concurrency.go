package shardtest

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func concurrencyClauses() []clause {
	return []clause{
		{name: "I1_ConcurrentClaimsNeverExceedCapacity", test: capacityUnderConcurrency},
		{name: "I2_ConcurrentClaimsOfAConsumer", test: func(s *suite) {
			const lanes = 6
			for h := range lanes {
				s.do(NewHost(h, 100))
			}
			for round := range 10 {
				var wg sync.WaitGroup
				outcomes := make([]shard.Outcome, lanes)
				for w := range lanes {
					l := s.openLane(fmt.Sprintf("lane-%d", w))
					wg.Go(func() {
						c := NewClaim(round*lanes+w, w, 1)
						c.ConsumerUUID = ConsumerID(round)
						a, err := l.Apply(s.ctx, []shard.Op{opOf(c)})
						if err != nil {
							s.Errorf("Apply: %v", err)
							return
						}
						outcomes[w] = a.Outcomes[0]
					})
				}
				wg.Wait()
				winner := ""
				for _, o := range outcomes {
					if o.Refusal == nil && o.Claim != nil {
						if winner != "" {
							s.Errorf("round %d has winners %s and %s", round, winner, o.Claim.ClaimID)
						}
						winner = o.Claim.ClaimID
					}
				}
				for _, o := range outcomes {
					if o.Refusal != nil && (o.Refusal.Kind != fault.AlreadyExists || o.Claim.ClaimID != winner) {
						s.Errorf("round %d was won by %s, and one refused with %+v for %+v", round, winner, o.Refusal, o.Claim)
					}
				}
			}
		}},
	}
}

// capacityUnderConcurrency lets lanes claim and release at random on a few small
// hosts, with a reader beside: no picture of the shard, and no row of the
// journal, has a provider over capacity.
func capacityUnderConcurrency(s *suite) {
	const hosts, lanes, steps, capacity = 4, 6, 150, 10
	for h := range hosts {
		s.do(NewHost(h, capacity))
	}
	done := make(chan struct{})
	var reader, writers sync.WaitGroup
	reader.Go(func() {
		for {
			for _, w := range s.rows().Overfull() {
				s.Error(w)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for w := range lanes {
		l := s.openLane(fmt.Sprintf("lane-%d", w))
		s.seed()
		rng := rand.New(rand.NewPCG(uint64(w), 1))
		writers.Go(func() {
			var mine []int
			for i := range steps {
				var ops []shard.Op
				for j := range 1 + rng.IntN(3) {
					if len(mine) > 0 && rng.IntN(2) == 0 {
						k := rng.IntN(len(mine))
						ops = append(ops, opOf(release(*Ref(mine[k]))))
						mine = append(mine[:k], mine[k+1:]...)
						continue
					}
					n := (w*steps+i)*3 + j
					ops = append(ops, opOf(NewClaim(n, rng.IntN(hosts), 1+rng.Int64N(4))))
				}
				a, err := l.Apply(s.ctx, ops)
				if err != nil {
					s.Errorf("Apply: %v", err)
					return
				}
				for _, o := range a.Outcomes {
					if o.Refusal == nil && o.Claim.State == shard.Pending {
						var n int
						if _, err := fmt.Sscanf(o.Claim.ClaimID, "claim-%d", &n); err != nil {
							s.Errorf("claim %s: %v", o.Claim.ClaimID, err)
						}
						mine = append(mine, n)
					}
				}
			}
		})
	}
	writers.Wait()
	close(done)
	reader.Wait()

	full := 0
	_, entries, err := Replay(s.ctx, s, nil)
	if err != nil {
		s.Fatal(err)
	}
	for _, lane := range entries {
		for _, e := range lane {
			for _, c := range e.Changes {
				if c.Usage == nil {
					continue
				}
				switch used := c.Usage.Of(c.Usage.HostUUID, Class); {
				case used > capacity:
					s.Errorf("I1: entry %d of lane %v has host %s at %d of %d", e.Seq, e.Lane, c.Usage.HostUUID, used, capacity)
				case used == capacity:
					full++
				}
			}
		}
	}
	if full == 0 {
		s.Error("no host was ever full: the test proves nothing")
	}
}
