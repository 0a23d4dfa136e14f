package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// healthEvery bounds how often a fleet's connection state is logged: one line
// for all hosts, not one a host.
const healthEvery = 5 * time.Second

// health counts a fleet's streams on which a state was accepted.
type health struct {
	log   *slog.Logger
	total int

	mu      sync.Mutex
	streams map[stream]struct{}
	lastErr error
	// failure is why a stream was not accepted, until takeFailure returns it.
	failure error
}

type stream struct {
	host    *Host
	replica int
}

func newHealth(log *slog.Logger, total int) *health {
	return &health{log: log, total: total, streams: make(map[stream]struct{}, total)}
}

func (h *health) up(host *Host, replica int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams[stream{host, replica}] = struct{}{}
}

func (h *health) down(host *Host, replica int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, stream{host, replica})
	h.lastErr = err
}

func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
}

// takeFailure returns why a stream was not accepted since the last call; nil for none.
func (h *health) takeFailure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.failure
	h.failure = nil
	return err
}

func (h *health) read() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams), h.lastErr
}

// run logs the number of accepted streams if it has changed, and why others are not accepted if the
// reason is new.
func (h *health) run(ctx context.Context) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	logged, loggedErr := 0, ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := h.takeFailure(); err != nil && err.Error() != loggedErr {
			loggedErr = err.Error()
			h.log.Warn("hosts cannot report to their cell", "err", err)
		}
		n, err := h.read()
		if n == logged {
			continue
		}
		if n < logged {
			h.log.Warn("hosts lost their cell", "reporting", n, "of", h.total, "err", err)
		} else {
			h.log.Info("hosts report to their cell", "reporting", n, "of", h.total)
		}
		logged = n
	}
}
