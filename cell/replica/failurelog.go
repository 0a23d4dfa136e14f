package replica

import (
	"log/slog"
	"time"

	"cellgate/internal/fault"
)

// logFailuresEvery is how often failures of one kind are told.
const logFailuresEvery = 5 * time.Second

// failureLog tells of transactions that fail: of the first of a kind at once, and then of
// how many did since, every tellFailures at most. It is not safe for concurrent use.
type failureLog struct {
	log   *slog.Logger
	kinds map[fault.Kind]*failures
}

// failures are those of a kind: told is when it was last told of, since how many were not.
type failures struct {
	logged time.Time
	since  int
	last   error
}

// note takes a transaction that failed.
func (l *failureLog) note(ops int, err error) {
	kind := fault.KindOf(err)
	f := l.kinds[kind]
	if f == nil {
		f = &failures{}
		if l.kinds == nil {
			l.kinds = map[fault.Kind]*failures{}
		}
		l.kinds[kind] = f
	}
	if time.Since(f.logged) >= logFailuresEvery {
		l.log.Warn("a transaction failed", "ops", ops, "err", err, "more_before", f.since)
		*f = failures{logged: time.Now()}
		return
	}
	f.since++
	f.last = err
}

// flush tells of what was not told yet: at once when all is over, else what is due.
func (l *failureLog) flush(over bool) {
	for _, f := range l.kinds {
		if f.since > 0 && (over || time.Since(f.logged) >= logFailuresEvery) {
			l.log.Warn("transactions failed", "count", f.since, "err", f.last)
			*f = failures{logged: time.Now()}
		}
	}
}
