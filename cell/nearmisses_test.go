package cell

import (
	"testing"
	"time"
)

func TestNearMissBudget_RefusalsWithoutEnd_TakeAQuarterOfAProcessor(t *testing.T) {
	const took = 2 * time.Millisecond
	now := time.Unix(0, 0)
	b := newNearMissBudget(now)
	looked := 0
	for range 10_000 { // a refusal per millisecond: twice what one processor can examine
		now = now.Add(time.Millisecond)
		if b.hasLeft(now) {
			b.spend(took)
			looked++
		}
	}
	work, most := time.Duration(looked)*took, nearMissBurst+time.Duration(nearMissShare*float64(10*time.Second))
	if work > most+took || work < most-2*took {
		t.Errorf("near misses took %s of 10 s, want %s", work, most)
	}
	if now = now.Add(time.Hour); !b.hasLeft(now) || b.left != nearMissBurst {
		t.Errorf("after a rest %s are left, want %s", b.left, nearMissBurst)
	}
}
