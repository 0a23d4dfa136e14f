package shardtest

import (
	"fmt"
	"sync"

	"cellgate/shard"
)

// racers registers n hosts of 1000 VCPU and opens n lanes.
func (s *suite) racers(n int) (lanes []shard.Lane) {
	s.Helper()
	for w := range n {
		s.do(NewHost(w, 1000))
	}
	return s.openLanes(n)
}

func (s *suite) openLanes(n int) (lanes []shard.Lane) {
	s.Helper()
	for w := range n {
		lanes = append(lanes, s.openLane(fmt.Sprintf("racer-%d", w)))
	}
	return lanes
}

// race lets all lanes run their operations at the same moment. It returns the outcomes by lane.
func (s *suite) race(lanes []shard.Lane, op func(lane int) any) []shard.Outcome {
	s.Helper()
	out := make([]shard.Outcome, len(lanes))
	for w, a := range s.raceTimes(lanes, 1, func(w, _ int) []shard.Op { return []shard.Op{opOf(op(w))} }) {
		if len(a) > 0 {
			out[w] = a[0].Outcomes[0]
		}
	}
	return out
}

// raceTimes lets all lanes apply their batches concurrently, each lane one after the other. It returns the results by
// lane. A lane stops at its first error, which fails the test.
func (s *suite) raceTimes(lanes []shard.Lane, times int, batch func(lane, time int) []shard.Op) [][]shard.Applied {
	s.Helper()
	out := make([][]shard.Applied, len(lanes))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for w, l := range lanes {
		first := batch(w, 0)
		wg.Go(func() {
			<-start
			for k := range times {
				ops := first
				if k > 0 {
					ops = batch(w, k)
				}
				a, err := l.Apply(s.ctx, ops)
				if err != nil {
					s.Errorf("Apply: %v", err)
					return
				}
				out[w] = append(out[w], a)
			}
		})
	}
	close(start)
	wg.Wait()
	return out
}

// oneWins checks that exactly one operation of a race was done. It returns the lanes whose operations were done.
func (s *suite) oneWins(out []shard.Outcome) (won []int) {
	s.Helper()
	for w, o := range out {
		if o.Refusal == nil {
			won = append(won, w)
		}
	}
	if len(won) != 1 {
		s.Errorf("lanes %v won, of %d", won, len(out))
	}
	return won
}
