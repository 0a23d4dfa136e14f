package lifecycle

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// spareHeap is how much may be allocated between two collections of a small
	// heap. A process that answers many short requests keeps little and throws away
	// much: with Go's default it would spend a quarter of its time collecting.
	spareHeap = 1 << 30
	// A heap grows by least to most percent of what is live.
	leastPercent, mostPercent = 100, 400
	liveBytes                 = "/gc/heap/live:bytes"
)

// TuneGC lets the heap grow further between two collections than Go's default
// does: to five times of what is live, and by 1 GiB at most, or to twice of it.
// It does nothing when GOGC or GOMEMLIMIT says what to do.
func TuneGC() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		afterEachGC(leastPercent)
	}
}

// sentinel is garbage, so that its end tells of a collection.
type sentinel struct{ _ *byte }

// afterEachGC sets the percentage after each collection, by what is live then.
func afterEachGC(set int) {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		live := []metrics.Sample{{Name: liveBytes}}
		metrics.Read(live)
		if p := gcPercent(live[0].Value.Uint64()); p < set*9/10 || p > set*11/10 {
			debug.SetGCPercent(p)
			set = p
		}
		afterEachGC(set)
	})
}

// gcPercent says by how much of live the heap may grow.
func gcPercent(live uint64) int {
	return int(min(max(spareHeap*100/max(live, 1), leastPercent), mostPercent))
}
