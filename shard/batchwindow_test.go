package shard

import (
	"testing"
	"time"
)

// The callers of a lane come back at once: a transaction waits for the callers of the last one, too,
// and gets all of them.
func TestCallersThatComeBackGoTogether(t *testing.T) {
	var g BatchWindow
	if _, limit := g.Wait(1, 256); limit != 0 {
		t.Errorf("the first transaction waits %v", limit)
	}
	g.Applied(31, 33, 4*time.Millisecond)
	want, limit := g.Wait(33, 256)
	if want != 64 || limit != time.Millisecond {
		t.Errorf("after 31 operations, with 33 there, it waits for %d, %v", want, limit)
	}
	g.Waited(33, 64, 200*time.Microsecond)
	for range 5 {
		g.Applied(64, 0, 4*time.Millisecond)
		if want, limit = g.Wait(7, 256); want != 64 || limit == 0 {
			t.Errorf("after 64 operations it waits for %d, %v", want, limit)
		}
		g.Waited(7, 64, 200*time.Microsecond)
	}
	if _, limit = g.Wait(64, 256); limit != 0 {
		t.Errorf("when all are there it waits %v", limit)
	}
	if want, _ = g.Wait(7, 32); want != 32 {
		t.Errorf("it waits for %d of at most 32", want)
	}
}

// Callers do not come back: waits become ever rarer. Once waits pay again, most transactions wait.
func TestWaitsThatDoNotPayAreLeftOut(t *testing.T) {
	var g BatchWindow
	waits, since := 0, 0
	for range 10 * gatherSkip {
		g.Applied(10, 10, 4*time.Millisecond)
		since++
		if _, limit := g.Wait(10, 256); limit > 0 {
			waits, since = waits+1, 0
			g.Waited(10, 10, limit)
		}
	}
	if waits < 10 || waits > 20 {
		t.Errorf("%d waits in %d transactions", waits, 10*gatherSkip)
	}
	waits = 0
	for range 10 * gatherSkip {
		g.Applied(10, 10, 4*time.Millisecond)
		if _, limit := g.Wait(10, 256); limit > 0 {
			waits++
			g.Waited(10, 20, limit/4)
		}
	}
	if waits < 9*gatherSkip {
		t.Errorf("waits that pay are made %d times of %d", waits, 10*gatherSkip)
	}
}

// Neither a single caller waits, nor callers whose last transaction was short.
func TestWhoIsAloneDoesNotWait(t *testing.T) {
	var g BatchWindow
	for range 10 {
		g.Applied(1, 0, 4*time.Millisecond)
		if _, limit := g.Wait(1, 256); limit != 0 {
			t.Fatalf("it waits %v", limit)
		}
	}
	g.Applied(10, 10, 100*time.Microsecond)
	if _, limit := g.Wait(10, 256); limit != 0 {
		t.Errorf("after a short transaction it waits %v", limit)
	}
}
