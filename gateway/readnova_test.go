package gateway

import (
	"testing"
	"testing/synctest"
	"time"
)

// After a cast of Nova's the gateway reads the tables twice at once, because an instance counts
// from the second read that has it.
func TestReadNova_BetweenTwoReads_ReadsTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		reads := func() int {
			synctest.Wait()
			u.reader.mu.Lock()
			defer u.reader.mu.Unlock()
			return u.reader.reads
		}
		time.Sleep(200 * time.Millisecond)
		before := reads()
		for range 100 {
			w.g.ReadNova("")
		}
		w.g.ReadNova("another cell")
		time.Sleep(300 * time.Millisecond)
		if got := reads() - before; got != 2 {
			t.Errorf("%d reads in 300 ms, want 2: a second is between two others", got)
		}
	})
}

// Each compute casts every two minutes, so a large cell has casts all the time.
func TestReadNova_CastsWithoutPause_ReadsAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, u := gated(1, testHost(1, 1)), newUpgrading()
		w := startGated(t, []*testCell{f}, map[int]*upgrading{0: u}, nil)
		time.Sleep(5 * time.Second)
		u.reader.mu.Lock()
		before := u.reader.reads
		u.reader.mu.Unlock()
		for range 1000 {
			w.g.ReadNova("cell1")
			time.Sleep(10 * time.Millisecond)
		}
		u.reader.mu.Lock()
		defer u.reader.mu.Unlock()
		if got := u.reader.reads - before; got < 100 || got > 250 {
			t.Errorf("%d reads in 10 s of casts, want one about every 50 ms", got)
		}
	})
}
