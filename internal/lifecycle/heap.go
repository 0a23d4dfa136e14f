package lifecycle

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// Between two collections a process may allocate a spareShare'th of the memory that
	// there is, of which least to most is taken when little or nothing is known. A
	// process that answers many short requests keeps little and throws away much: with
	// Go's default it would spend a quarter of its time collecting.
	spareShare            = 8
	leastSpare, mostSpare = 256 << 20, 4 << 30
	unknownSpare          = 1 << 30
	// A heap grows by least to most percent of what is live.
	leastPercent, mostPercent = 100, 400
	liveBytes                 = "/gc/heap/live:bytes"
)

// TuneGC lets the heap grow further between two collections than Go's default
// does: to five times of what is live, and by an eighth of the memory that the process
// may have (its control group's, else the machine's; 256 MiB to 4 GiB) at most, or to
// twice of what is live. Where a control group bounds the memory, nine tenths of it are
// the runtime's soft limit. It does nothing when GOGC or GOMEMLIMIT says what to do.
func TuneGC() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	bound, err := memlimit.FromCgroup()
	if err != nil {
		bound = 0 // no control group bounds it
	}
	memory, err := memlimit.FromSystem()
	switch {
	case err != nil:
		memory = bound
	case bound > 0:
		memory = min(memory, bound)
	}
	if limit := softLimit(bound); limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	afterEachGC(spare(memory), leastPercent)
}

// softLimit is the runtime's soft limit, in bytes, in a control group that has bound; 0
// for none.
func softLimit(bound uint64) int64 {
	return int64(min(bound, 1<<62) / 10 * 9)
}

// spare is how many bytes may be allocated between two collections where there are
// memory; 0 for what is not known.
func spare(memory uint64) uint64 {
	if memory == 0 {
		return unknownSpare
	}
	return min(max(memory/spareShare, leastSpare), mostSpare)
}

// sentinel is garbage, so that its end tells of a collection.
type sentinel struct{ _ *byte }

// afterEachGC sets the percentage after each collection, by what is live then.
func afterEachGC(spare uint64, set int) {
	runtime.SetFinalizer(&sentinel{}, func(*sentinel) {
		live := []metrics.Sample{{Name: liveBytes}}
		metrics.Read(live)
		if p := gcPercent(live[0].Value.Uint64(), spare); p < set*9/10 || p > set*11/10 {
			debug.SetGCPercent(p)
			set = p
		}
		afterEachGC(spare, set)
	})
}

// gcPercent says by how much of live the heap may grow.
func gcPercent(live, spare uint64) int {
	return int(min(max(spare*100/max(live, 1), leastPercent), mostPercent))
}
