package selection

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestContentionFollowsRefusals(t *testing.T) {
	now := time.Unix(1000, 0)
	var c contention
	if w := c.width(now); w != 1 {
		t.Fatalf("nothing seen: %d", w)
	}
	for range 1000 {
		now = now.Add(time.Millisecond)
		if c.record(now, 1, 0); c.width(now) != 1 {
			t.Fatal("without refusals the order is not kept")
		}
	}
	for range 100 {
		now = now.Add(time.Millisecond)
		c.record(now, 0, 1)
	}
	if w := c.width(now); w != maxSpread {
		t.Errorf("all refused: %d", w)
	}
	half := c
	for range 30 {
		now = now.Add(time.Millisecond)
		half.record(now, 1, 0)
	}
	if w := half.width(now); w >= maxSpread/2 || w < 2 {
		t.Errorf("after 30 that were made: %d", w)
	}
	if w := c.width(now.Add(10 * time.Second)); w != 1 {
		t.Errorf("idle for 10 s: %d", w)
	}
}

// packing simulates a cell of hosts with room for room instances each, and schedulers that all want the first host
// with room. In a step all schedulers choose, and then claim one after the other. A scheduler whose host is full by
// then is refused, and tries again.
func packing(seed uint64, schedulers, hosts, room, instances int, avoid bool) (refused int, wide int) {
	random := rand.New(rand.NewPCG(seed, 1))
	free := make([]int, hosts)
	for i := range free {
		free[i] = room
	}
	states, losses := make([]contention, schedulers), make([]int, schedulers)
	now := time.Unix(1000, 0)
	for instances > 0 {
		now = now.Add(10 * time.Millisecond)
		var open []int
		for h, n := range free {
			if n > 0 {
				open = append(open, h)
			}
		}
		for s := range schedulers {
			width := 1
			if losses[s] > 0 {
				width = min(1<<min(losses[s], 6), maxSpread)
			}
			if avoid {
				width = max(width, states[s].width(now))
			}
			if width > 1 && losses[s] == 0 {
				wide++
			}
			h := open[random.IntN(min(width, len(open)))]
			if free[h] == 0 {
				refused++
				losses[s]++
				states[s].record(now, 0, 1)
				continue
			}
			free[h]--
			losses[s] = 0
			states[s].record(now, 1, 0)
			if instances--; instances == 0 {
				break
			}
		}
	}
	return refused, wide
}

// Eight schedulers that pack the same cell are refused at most three quarters as often if they avoid each other from
// the start. A single scheduler never leaves the order.
func TestEightSchedulersThatPack(t *testing.T) {
	for _, room := range []int{1, 2, 4} {
		for seed := range uint64(5) {
			before, _ := packing(seed, 8, 800, room, 700*room, false)
			after, _ := packing(seed, 8, 800, room, 700*room, true)
			if after*4 > before*3 {
				t.Errorf("%d on a host, seed %d: %d refusals of %d claims, %d without", room, seed, after, 700*room, before)
			}
			if seed == 0 {
				t.Logf("%d on a host: %d refusals for %d claims, %d without", room, after, 700*room, before)
			}
		}
		if refused, wide := packing(0, 1, 800, room, 700*room, true); refused+wide != 0 {
			t.Errorf("one alone: %d refused, %d not the first", refused, wide)
		}
	}
}
