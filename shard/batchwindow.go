package shard

import "time"

// BatchWindow decides how long the owner of a lane waits for more operations before its next Apply.
//
// A transaction of one operation costs nearly as much as one of many: round trips, locks that other lanes wait for, a
// sync. Callers that were just answered often send their next operation at once, just after the next transaction has
// begun. Then half of the callers take part in every other transaction. So the next transaction waits until as many
// operations are there as took part in the last one or were waiting at its end. It waits at most a quarter of the
// last one's duration.
//
// A wait pays if the operations that arrived during it save more time than the operations that were already there
// lose by waiting. After waits that do not pay, more and more waits are skipped.
//
// The zero value is ready. One goroutine at a time.
type BatchWindow struct {
	took   time.Duration
	around int
	// skip is how many waits are skipped; each wait that does not pay doubles it.
	skip, skipped int
}

const (
	// gatherMost bounds a wait; gatherLeast is the shortest wait worth a timer.
	gatherMost  = 5 * time.Millisecond
	gatherLeast = 50 * time.Microsecond
	// gatherSkip bounds how many waits in a row are skipped.
	gatherSkip = 256
)

// Applied records a transaction: how many operations it had, how many were waiting when it ended, and how long it
// took.
func (g *BatchWindow) Applied(ops, waiting int, took time.Duration) {
	g.around, g.took = ops+waiting, took
}

// Wait says how many operations to wait for, and for how long at most. have is how many are there, most is how many a
// transaction takes. If limit is 0, do not wait. After a wait call Waited.
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

// Waited records a wait: how many operations were there before and after it, and how long it was.
func (g *BatchWindow) Waited(before, after int, waited time.Duration) {
	g.skipped = 0
	if gained := after - before; time.Duration(gained)*g.took > time.Duration(before)*waited {
		g.skip /= 4
		return
	}
	g.skip = min(max(1, 2*g.skip), gatherSkip)
}
