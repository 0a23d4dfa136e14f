package health

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Check is the result of one check of a process.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Why says what is wrong; if OK, it may say what was found.
	Why string `json:"why,omitempty"`
}

// Report is what /healthz and /readyz answer.
type Report struct {
	// Status is "ok" or "ready" if all checks are OK, otherwise "failing" or "not ready".
	Status string  `json:"status"`
	Checks []Check `json:"checks"`
}

// everyCheck is how often Run evaluates the checks to report changes; an HTTP request evaluates
// them itself.
const everyCheck = 250 * time.Millisecond

// Monitor joins the checks of a process. Safe for concurrent use.
type Monitor struct {
	alive, ready func() []Check
	draining     chan struct{}
	drain        sync.Once
	changed      chan struct{}
	also         atomic.Pointer[func() Check]
}

// New makes a monitor. Both functions are called often and concurrently, so they must not block. Either
// may be nil.
func New(alive, ready func() []Check) *Monitor {
	none := func() []Check { return nil }
	if alive == nil {
		alive = none
	}
	if ready == nil {
		ready = none
	}
	return &Monitor{alive: alive, ready: ready, draining: make(chan struct{}), changed: make(chan struct{}, 1)}
}

// Also adds to readiness a check of an additional part of the process. It is called often and must not
// block.
func (m *Monitor) Also(ready func() Check) { m.also.Store(&ready) }

// Drain makes the process not ready, permanently.
func (m *Monitor) Drain() { m.drain.Do(func() { close(m.draining) }) }

// Stopping is closed when Drain is called.
func (m *Monitor) Stopping() <-chan struct{} { return m.draining }

// Draining reports whether Drain was called.
func (m *Monitor) Draining() bool {
	select {
	case <-m.draining:
		return true
	default:
		return false
	}
}

// Changed has Run evaluate the checks at once.
func (m *Monitor) Changed() {
	select {
	case m.changed <- struct{}{}:
	default: // it will
	}
}

// Alive says whether the process is alive.
func (m *Monitor) Alive() (Report, bool) {
	r := Report{Status: "ok", Checks: append([]Check{{Name: "process", OK: true}}, m.alive()...)}
	ok := all(r.Checks)
	if !ok {
		r.Status = "failing"
	}
	return r, ok
}

// Ready reports whether the process accepts new work.
func (m *Monitor) Ready() (Report, bool) {
	draining := Check{Name: "draining", OK: true}
	if m.Draining() {
		draining = Check{Name: "draining", Why: "the process was asked to stop"}
	}
	r := Report{Status: "ready", Checks: append([]Check{draining}, m.ready()...)}
	if more := m.also.Load(); more != nil {
		r.Checks = append(r.Checks, (*more)())
	}
	ok := all(r.Checks)
	if !ok {
		r.Status = "not ready"
	}
	return r, ok
}

func all(checks []Check) bool {
	for _, c := range checks {
		if !c.OK {
			return false
		}
	}
	return true
}

// Run calls set with whether the process is ready, at once and at every change, until ctx ends.
func (m *Monitor) Run(ctx context.Context, set func(ready bool)) error {
	tick := time.NewTicker(everyCheck)
	defer tick.Stop()
	_, last := m.Ready()
	set(last)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-m.changed:
		}
		if _, now := m.Ready(); now != last {
			last = now
			set(now)
		}
	}
}

// ServeAlive is /healthz: 200 or 503 with a Report.
func (m *Monitor) ServeAlive(w http.ResponseWriter, _ *http.Request) { serve(w, m.Alive) }

// ServeReady is /readyz: 200 or 503 with a Report.
func (m *Monitor) ServeReady(w http.ResponseWriter, _ *http.Request) { serve(w, m.Ready) }

func serve(w http.ResponseWriter, of func() (Report, bool)) {
	r, ok := of()
	text, err := json.Marshal(r)
	if err != nil { // strings and booleans always marshal
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// An error here means that the client has gone.
	_, _ = w.Write(append(text, '\n'))
}
