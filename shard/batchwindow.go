package shard

import "time"

// BatchWindow says how long the owner of a lane waits for more operations before its
// next Apply.
//
// A transaction of one operation costs nearly what one of many does: trips, locks that
// other lanes wait for, a sync. Callers who were just answered often ask again at once,
// and come just after the next transaction has begun: then half of them go with every
// other one. So the next one waits until as many are there as were around at the end of
// the last one, for a quarter of the time that took at most.
//
// A wait pays when those who came in it would have waited longer for the transaction
// after that than those who were there waited for them. When waits do not pay, fewer
// and fewer are made.
//
// The zero value is ready. One goroutine at a time.
type BatchWindow struct {
	took   time.Duration
	around int
	// skip is how many waits are left out; each that does not pay doubles it.
	skip, skipped int
}

const (
	// gatherMost bounds a wait, gatherLeast is the shortest worth a timer.
	gatherMost  = 5 * time.Millisecond
	gatherLeast = 50 * time.Microsecond
	// gatherSkip bounds how many waits in a row are left out.
	gatherSkip = 256
)

// Applied notes a transaction: how many operations it had, how many were there for
// the next one when it ended, and how long it took.
func (g *BatchWindow) Applied(ops, waiting int, took time.Duration) {
	g.around, g.took = ops+waiting, took
}

// Wait says how many operations to wait for, at most limit long, when have are there
// and a transaction takes at most most. Limit 0: do not wait. After a wait call Waited.
func (g *BatchWindow) Wait(have, most int) (want int, limit time.Duration) {
	want = min(g.around, most)
	limit = min(g.took/4, gatherMost)
	if have == 0 || have >= want || limit < gatherLeast {
		return 0, 0
	}
	if g.skipped < g.skip {
		g.skipped++
		return 0, 0
	}
	return want, limit
}

// Waited notes a wait: how many operations were there before and after it, and how
// long it was.
func (g *BatchWindow) Waited(before, after int, waited time.Duration) {
	g.skipped = 0
	if gained := after - before; time.Duration(gained)*g.took > time.Duration(before)*waited {
		g.skip /= 4
		return
	}
	g.skip = min(max(1, 2*g.skip), gatherSkip)
}
