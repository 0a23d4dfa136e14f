package cellclient

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
)

// BreakerConfig says when a replica is left alone and when it is tried again.
// The zero value of each field means its default.
type BreakerConfig struct {
	// Failures in a row that open a breaker (5): of all calls together, or of one kind. A replica that cannot be
	// connected to opens its breaker at once.
	Failures int
	// OpenFor is how long an open breaker lets no call through, not even the prober's (1 s).
	OpenFor time.Duration
	// ProbeEvery is how often a replica in doubt is probed (500 ms), ProbeBudget how long its
	// answer may take (500 ms).
	ProbeEvery  time.Duration
	ProbeBudget time.Duration
}

// outcome is the evidence that an ended call gives about its replica.
type outcome int

const (
	// served: the replica answered, with success or a refusal.
	served outcome = iota
	// failed: the replica did not answer in sufficient time, or has a defect.
	failed
	// excused: the caller gave up, or left the replica too little time.
	excused
)

// callKind is what part of its replica a call exercises.
type callKind int

const (
	// asks: the replica answers from memory, or reads its shard.
	asks callKind = iota
	// commits: the replica has to write to its shard before it answers.
	commits
	// probes: the prober's call.
	probes
)

// failureStreaks count the failures in a row of each kind of call, since successes of another kind must not hide them.
// A replica whose disk hangs answers proposals. One that is too slow for proposals answers its prober. The streaks
// survive changes of the breaker's state: a kind of call that failed, and was not served since, is still in doubt when
// a probe closes the breaker.
type failureStreaks [probes + 1]int

// failed counts a failure and gives the length of its streak.
func (s *failureStreaks) failed(k callKind) int {
	s[k]++
	return s[k]
}

// answered ends the streak of a kind. A refused write does not end it: a replica refuses
// without its disk.
func (s *failureStreaks) answered(k callKind, refused bool) {
	if k != commits || !refused {
		s[k] = 0
	}
}

// expiryMargin is added to OpenFor, since gobreaker is half-open only strictly after its timeout.
const expiryMargin = time.Millisecond

var (
	errFailed  = errors.New("failed")
	errExcused = errors.New("excused")
	// ErrNotSent is in the chain of every error of a call that was not sent.
	ErrNotSent = errors.New("not sent")
	// errBusy is in the chain of a call's error if the replica answered other calls while
	// this one waited.
	errBusy = errors.New("the replica was busy with other calls")
	// ErrDeadlineTooShort is in the chain of the error of a call to a replica that is well, as
	// far as is known, if the caller's own deadline left it less than its budget.
	ErrDeadlineTooShort = errors.New("the deadline was too short")
)

// breaker keeps users' calls away from a replica that does not serve them.
//
//	CLOSED ──failures──▶ OPEN ──OpenFor──▶ HALF_OPEN ──a probe is answered──▶ CLOSED
//	                      ▲                   │
//	                      └──a probe fails────┘
//
// Users' calls pass only while it is closed; in HALF_OPEN only the prober's call does, one at a time. Safe for
// concurrent use.
type breaker struct {
	cfg BreakerConfig
	// changed is called with each change of state, without mu.
	changed func(change)
	// trouble wakes the prober when the replica comes into doubt.
	trouble chan struct{}

	// mu makes the check for the closed state and the admission of a call one step, and
	// guards the fields below.
	mu    sync.Mutex
	steps *gobreaker.TwoStepCircuitBreaker[struct{}]
	// generation counts the changes of state, as gobreaker's does: a call that began in an
	// earlier generation does not count.
	generation int
	// since is when it last opened or closed; changes between half-open and open do not
	// count.
	since time.Time
	// openUntil is when the open state lets a probe in.
	openUntil time.Time
	// lastError is the error of the newest failed call; it stays when the breaker closes.
	lastError error
	// decisive is set while a failure is recorded that opens the breaker by itself.
	decisive bool
	// doubted: since a call failed or was excused, no call was served; or since a probe
	// failed, no probe was served.
	doubted bool
	streaks failureStreaks
	// closed ends when the breaker opens; a new one begins when it closes.
	closed context.Context
	open   context.CancelFunc
	// changes are not yet passed to changed.
	changes []change
}

// change is a change of a breaker's state.
type change struct {
	from, to gobreaker.State
	cause    error
	// after is how long the breaker was not closed; it counts only for a change to closed.
	after time.Duration
}

func newBreaker(cfg BreakerConfig, changed func(change)) *breaker {
	b := &breaker{cfg: cfg, changed: changed, trouble: make(chan struct{}, 1), since: time.Now()}
	b.closed, b.open = context.WithCancel(context.Background())
	b.steps = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		Timeout:      cfg.OpenFor,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return b.decisive || n.ConsecutiveFailures >= uint32(cfg.Failures) },
		IsSuccessful: func(err error) bool { return err == nil },
		IsExcluded:   func(err error) bool { return errors.Is(err, errExcused) },
		// gobreaker calls it within its own methods, which are called with mu held.
		OnStateChange: func(_ string, from, to gobreaker.State) { b.note(from, to) },
	})
	return b
}

// note records a change of state. mu is held.
func (b *breaker) note(from, to gobreaker.State) {
	now := time.Now()
	b.changes = append(b.changes, change{from: from, to: to, cause: b.lastError, after: now.Sub(b.since)})
	b.generation++
	switch {
	case to == gobreaker.StateOpen:
		b.openUntil = now.Add(b.cfg.OpenFor + expiryMargin)
		if from == gobreaker.StateClosed {
			b.since = now
			b.open()
		}
	case to == gobreaker.StateClosed:
		b.since, b.doubted = now, false
		b.closed, b.open = context.WithCancel(context.Background())
	}
}

// unlock releases mu and reports the step's changes: a log that hangs must not hang callers.
func (b *breaker) unlock() {
	changes := b.changes
	b.changes = nil
	b.mu.Unlock()
	for _, c := range changes {
		b.changed(c)
	}
}

// pass admits one call. Its leave must be called once.
type pass struct {
	b          *breaker
	generation int
	kind       callKind
	done       func(error)
	// breakerOpen ends when the breaker opens; callers that may give up their call stop
	// waiting then.
	breakerOpen context.Context
}

// enter admits a user's call while the breaker is closed. The error says why the call may not
// be sent.
func (b *breaker) enter(k callKind) (*pass, error) {
	b.mu.Lock()
	defer b.unlock()
	if b.steps.State() != gobreaker.StateClosed {
		return nil, b.refusal()
	}
	return b.admit(k)
}

// enterProbe admits the prober's call, also the call that decides in HALF_OPEN.
func (b *breaker) enterProbe() (*pass, error) {
	b.mu.Lock()
	defer b.unlock()
	return b.admit(probes)
}

// admit asks gobreaker. mu is held.
func (b *breaker) admit(k callKind) (*pass, error) {
	done, err := b.steps.Allow()
	if err != nil {
		return nil, b.refusal()
	}
	return &pass{b: b, generation: b.generation, kind: k, done: done, breakerOpen: b.closed}, nil
}

// refusal is the error of a call that is not admitted. mu is held.
func (b *breaker) refusal() error {
	return fault.Wrap(fault.CellUnavailable, ErrNotSent, "breaker open since %s, last error: %s",
		b.since.UTC().Format(time.RFC3339), ReasonOf(b.lastError))
}

// refused is the error of a call that was abandoned when the breaker opened.
func (b *breaker) refused() error {
	b.mu.Lock()
	defer b.unlock()
	return b.refusal()
}

// refuses gives the error that enter would give now; nil if it would admit a call.
func (b *breaker) refuses() error {
	b.mu.Lock()
	defer b.unlock()
	if b.steps.State() != gobreaker.StateClosed {
		return b.refusal()
	}
	return nil
}

// inDoubt reports whether a user's call should rather go to another replica: the breaker is
// not closed, or no call was served since one failed or was excused.
func (b *breaker) inDoubt() bool {
	b.mu.Lock()
	defer b.unlock()
	return b.doubted || b.steps.State() != gobreaker.StateClosed
}

// while derives a context that also ends when the breaker opens.
func (p *pass) while(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(p.breakerOpen, cancel)
	return ctx, func() { stop(); cancel() }
}

// leave records how the call ended; err is why it was not served, or the refusal.
func (p *pass) leave(v outcome, err error) {
	b := p.b
	b.mu.Lock()
	defer b.unlock()
	// State moves an open breaker to half-open if its time has passed, which is a new generation.
	b.steps.State()
	if p.generation != b.generation {
		return // gobreaker would not count it either
	}
	switch v {
	case served:
		b.streaks.answered(p.kind, err != nil)
		b.doubted = b.streaks[probes] > 0
		p.done(nil)
	case excused:
		b.doubt()
		p.done(errExcused)
	case failed:
		b.doubt()
		b.lastError = err
		b.decisive = b.streaks.failed(p.kind) >= b.cfg.Failures || rpc.Unreachable(err)
		p.done(errFailed)
		b.decisive = false
	}
}

// doubt marks the replica as doubted and wakes the prober. mu is held.
func (b *breaker) doubt() {
	b.doubted = true
	select {
	case b.trouble <- struct{}{}:
	default: // the prober is already woken
	}
}

// nextProbe gives the time from now until the next probe is due; the last one began at began.
// healthy is the interval for a replica that is not in doubt.
func (b *breaker) nextProbe(began time.Time, healthy time.Duration) time.Duration {
	b.mu.Lock()
	defer b.unlock()
	next := began.Add(healthy)
	if state := b.steps.State(); state != gobreaker.StateClosed || b.doubted {
		next = began.Add(min(healthy, b.cfg.ProbeEvery))
		if state == gobreaker.StateOpen && b.openUntil.Before(next) {
			next = b.openUntil
		}
	}
	return max(time.Until(next), 0)
}

// ailing reports whether the replica did not answer its last probe, or its breaker is not closed.
func (b *breaker) ailing() bool {
	b.mu.Lock()
	defer b.unlock()
	return b.streaks[probes] > 0 || b.steps.State() != gobreaker.StateClosed
}

// view gives the state, when it last opened or closed, and the error of the newest failed call.
func (b *breaker) view() (state gobreaker.State, since time.Time, err error) {
	b.mu.Lock()
	defer b.unlock()
	return b.steps.State(), b.since, b.lastError
}

// timing is how long a call took, and how long it was allowed to take.
type timing struct {
	// took is how long it took, budget when it was abandoned. fair is the time that a replica
	// is entitled to, given what the caller's deadline left of that.
	took, budget, fair, given time.Duration
}

// late reports whether the replica's time was over, by this process's clock or by the replica's answer.
func (t timing) late(err error) bool { return t.took >= t.budget || rpc.TimedOut(err) }

// stalled reports whether the call ended far beyond its budget. That only happens if this
// process, or its machine, was stopped; the answer may lie in a buffer.
func (t timing) stalled() bool { return t.took >= 2*t.budget }

// judge decides whose fault an error is. A replica that refuses, or is overloaded, counts as
// serving.
func judge(err error, t timing) outcome {
	kind := fault.KindOf(err)
	switch {
	case t.late(err) && (t.given < t.fair || t.stalled() || errors.Is(err, errBusy)):
		return excused
	case t.late(err):
		return failed
	case errors.Is(err, errNotAdmitted):
		return served
	case errors.Is(err, ErrNotSent):
		return excused
	case kind == fault.CellUnavailable && !rpc.Unserved(err), kind == fault.Internal:
		return failed
	}
	return served
}
