package claims

import (
	"log/slog"
	"sync"
	"time"
)

// unreleasedEvery is how often claims that could not be released are logged.
const unreleasedEvery = 10 * time.Second

// unreleased counts claims that could not be released, by cell, and logs them once
// an interval: a cell that hangs fails every release. Safe for concurrent use.
type unreleased struct {
	log *slog.Logger

	mu    sync.Mutex
	cells map[string]unreleasedClaims
}

type unreleasedClaims struct {
	claims, releases int
	// last is why the newest release failed.
	last error
}

// add takes one release that failed.
func (u *unreleased) add(cell string, claims int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cells == nil {
		u.cells = map[string]unreleasedClaims{}
	}
	n := u.cells[cell]
	u.cells[cell] = unreleasedClaims{claims: n.claims + claims, releases: n.releases + 1, last: err}
}

// logAll logs what was added since the last time.
func (u *unreleased) logAll() {
	u.mu.Lock()
	cells := u.cells
	u.cells = nil
	u.mu.Unlock()
	for cell, n := range cells {
		u.log.Warn("claims not released; their leases end", "cell", cell, "claims", n.claims, "releases", n.releases, "error", n.last)
	}
}

// start logs every interval. The function it gives ends that and logs what is left.
func (u *unreleased) start() (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer u.logAll()
		tick := time.NewTicker(unreleasedEvery)
		defer tick.Stop()
		for {
			select {
			case <-ending:
				return
			case <-tick.C:
				u.logAll()
			}
		}
	}()
	return func() { close(ending); <-ended }
}
