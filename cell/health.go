package cell

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/health"
)

// Health says whether the replica is alive (no transaction stands still) and
// ready: its table is loaded, it is not stopping, and what it last wanted of the
// store worked. The lease scan asks the store every Config.LeaseScan, so that a
// store that fails is seen without a request, and one that works again too.
func (c *Cell) Health() *health.Monitor { return c.health }

func (c *Cell) aliveChecks() []health.Check {
	check := health.Check{Name: "transactions", OK: true}
	if d := c.stored.inFlight(); d > 2*applyTimeout {
		check.OK, check.Why = false, fmt.Sprintf("one has not come back for %v", d.Round(time.Second))
	}
	return []health.Check{check}
}

func (c *Cell) readyChecks() []health.Check {
	table := health.Check{Name: "table", OK: true}
	if err := c.serving(); err != nil {
		table.OK, table.Why = false, err.Error()
	}
	store := health.Check{Name: "store", OK: true}
	if since, err := c.stored.failing(); err != nil {
		store.OK, store.Why = false, fmt.Sprintf("fails for %v: %v", since.Round(time.Second), err)
	}
	return []health.Check{table, store}
}

// storeWatch remembers how the store did last. Safe for concurrent use.
type storeWatch struct {
	now func() time.Time
	// began is when the transaction in flight began, in ns; 0 for none.
	began atomic.Int64

	mu    sync.Mutex
	err   error
	since time.Time
}

// saw takes the result of something asked of the store.
func (w *storeWatch) saw(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.err == nil {
		w.since = w.now()
	}
	w.err = err
}

// failing gives the last error and how long there have been errors only; nil
// when the last thing asked worked.
func (w *storeWatch) failing() (time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		return 0, nil
	}
	return w.now().Sub(w.since), w.err
}

// begin marks that a transaction begins; the function it returns, that it ended.
func (w *storeWatch) begin() (end func()) {
	w.began.Store(w.now().UnixNano())
	return func() { w.began.Store(0) }
}

// inFlight is how long the transaction in flight has taken; 0 for none.
func (w *storeWatch) inFlight() time.Duration {
	at := w.began.Load()
	if at == 0 {
		return 0
	}
	return w.now().Sub(time.Unix(0, at))
}
