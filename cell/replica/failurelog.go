package replica

import (
	"log/slog"
	"time"
)

// logFailuresEvery is how often transactions that fail are logged.
const logFailuresEvery = 5 * time.Second

// failureLog logs transactions that fail: the first at once, then one every logFailuresEvery at
// most, with how many failed since. It is not safe for concurrent use.
type failureLog struct {
	log    *slog.Logger
	logged time.Time
	failed int
}

// note logs a transaction that failed, or counts it.
func (l *failureLog) note(ops int, err error) {
	if l.failed++; time.Since(l.logged) < logFailuresEvery {
		return
	}
	l.log.Warn("a transaction failed", "ops", ops, "err", err, "failed", l.failed)
	l.logged, l.failed = time.Now(), 0
}
