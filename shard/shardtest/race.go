package shardtest

import (
	"fmt"
	"sync"

	"cellgate/shard"
)

// racers opens lanes, and makes a host of 1000 for each.
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

// race has each lane do its operation at the same moment, and gives the outcomes by lane.
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

// raceTimes has each lane apply batches one after the other, beside the others, and gives what came of
// each by lane. A lane ends with its first error, which fails the test.
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

// oneWins checks that one of a race's operations was done and all others were refused, and gives those done.
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
