package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
)

const (
	// answerWithin is how long the cell may take to answer a full state before the reporter gives up the stream.
	answerWithin = 60 * time.Second
	// refusedRetry is how long the reporter waits before it offers a refused state again unchanged on the same
	// stream, or calls a replica again that ended the stream as an invalid request.
	refusedRetry = 5 * time.Minute
)

// ReporterDeps are the dependencies of a reporter.
type ReporterDeps struct {
	Client agentv1.HostReportsClient
	// Replica names the replica among those of the host.
	Replica string
	// Log may be nil.
	Log *slog.Logger
	// Accepted is called each time the replica accepts the newest state sent. waited is the time since
	// the first change in it that was new to the replica; 0 if none was. Lost is called each time a
	// stream ends on which a state was accepted, Failed each time one ends, or could not begin, without
	// that. All may be nil.
	Accepted func(waited time.Duration)
	Lost     func(error)
	// Tel may be nil.
	Tel    telemetry.Agent
	Failed func(error)
}

// Reporter keeps one host's stream to one replica of its cell.
type Reporter struct {
	deps ReporterDeps
	host *Host
	// loggedRefusal is the newest version whose refusal was logged, proven the newest accepted version.
	loggedRefusal, proven uint64
}

// NewReporter makes the reporter of host.
func NewReporter(deps ReporterDeps, host *Host) *Reporter {
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Accepted == nil {
		deps.Accepted = func(time.Duration) {}
	}
	if deps.Lost == nil {
		deps.Lost = func(error) {}
	}
	if deps.Failed == nil {
		deps.Failed = func(error) {}
	}
	return &Reporter{deps: deps, host: host}
}

// Run reports until ctx ends; it then returns nil. It reopens a broken stream after a growing, jittered
// wait.
func (r *Reporter) Run(ctx context.Context) error {
	wait := backoff{least: 250 * time.Millisecond, most: 15 * time.Second}
	for {
		s := session{Reporter: r}
		err := s.run(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.accepted {
			wait.reset()
			r.deps.Lost(err)
		} else {
			r.deps.Failed(err)
		}
		r.deps.Log.Debug("report stream ended", "err", err)
		pause := wait.next()
		if fault.KindOf(err) == fault.InvalidRequest {
			// The replica belongs to another cell: it accepts no report of this agent.
			pause = max(pause, refusedRetry)
		}
		if !sleep(ctx, pause) {
			return nil
		}
		r.deps.Tel.Reconnected()
	}
}

// sleep waits for d; it returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var errNoAnswer = errors.New("the cell did not answer the full state in time")

// reportRefused logs a refusal once for each version.
func (r *Reporter) reportRefused(m *agentv1.Refused) {
	if r.loggedRefusal == m.GetVersion() {
		return
	}
	r.loggedRefusal = m.GetVersion()
	text := "the cell refused the host's state: until it accepts one no heartbeat is sent there, and the host is down after the cell's service_down_time"
	if m.GetHeldVersion() > 0 {
		text = "the cell refused the host's state: until it accepts one the host stays in service by the version that the cell holds"
	}
	r.deps.Log.Warn(text,
		"version", m.GetVersion(), "held", m.GetHeldVersion(), "reason", m.GetReason(), "problems", m.GetProblems(),
		"retry_in", fmt.Sprint(refusedRetry, " or when the state changes"))
}

// backoff computes the waits between attempts to connect. Each wait is drawn from the upper half of a
// span that doubles from least to most, so that the agents of a cell that comes back do not all arrive
// at once.
type backoff struct {
	least, most time.Duration
	tries       int
}

// next returns the wait before the next attempt.
func (b *backoff) next() time.Duration {
	span := b.most
	if b.tries < 30 {
		span = min(b.least<<b.tries, b.most)
	}
	b.tries++
	return span/2 + rand.N(span/2+1)
}

// reset starts over after an attempt that worked.
func (b *backoff) reset() { b.tries = 0 }
