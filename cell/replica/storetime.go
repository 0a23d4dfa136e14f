package replica

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// maxStoreTimeApart is the difference between store time and the machine's clock above which a warning
// is logged.
const maxStoreTimeApart = time.Minute

// storeTimeWatch compares store time with the machine's clock. A difference does not change the length
// of leases, because store time keeps its pace.
type storeTimeWatch struct {
	Machine func() time.Time
	log     *slog.Logger
	ahead   atomic.Int64
	// apart: the difference was logged. Only the goroutine that compares uses it.
	apart bool
}

// compare processes a store time that was just read.
func (w *storeTimeWatch) compare(store time.Time) {
	ahead := store.Sub(w.Machine())
	w.ahead.Store(int64(ahead))
	apart := ahead.Abs() > maxStoreTimeApart
	switch {
	case apart && !w.apart:
		w.log.Warn("store time and this machine's clock are apart: timestamps of claims are not those of the clock, leases last as long as they say; see docs/how-to/runbook.md, \"Store time is apart\"",
			"store_time", store, "ahead", ahead.Round(time.Second))
	case !apart && w.apart:
		w.log.Info("store time and this machine's clock agree again", "ahead", ahead)
	}
	w.apart = apart
}

// Ahead is store time minus the machine's clock.
func (w *storeTimeWatch) Ahead() time.Duration { return time.Duration(w.ahead.Load()) }

// Now is the current store time, approximately.
func (w *storeTimeWatch) Now() time.Time { return w.Machine().Add(w.Ahead()) }
