package cell

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// maxStoreTimeApart is how far store time and the machine's clock may be apart before
// that is logged.
const maxStoreTimeApart = time.Minute

// storeTimeWatch compares store time with the machine's clock. Leases last as long as
// they say either way: store time keeps its pace.
type storeTimeWatch struct {
	machine func() time.Time
	log     *slog.Logger
	ahead   atomic.Int64
	// apart: it is logged. Of the one goroutine that observes.
	apart bool
}

// observe takes a reading of store time that was just made.
func (w *storeTimeWatch) observe(store time.Time) {
	ahead := store.Sub(w.machine())
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

// reading is store time less the machine's clock.
func (w *storeTimeWatch) reading() time.Duration { return time.Duration(w.ahead.Load()) }

// now is store time about now.
func (w *storeTimeWatch) now() time.Time { return w.machine().Add(w.reading()) }
