package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// Part is something that runs until its context ends.
type Part struct {
	// Name is what errors and the log call it.
	Name string
	Run  func(ctx context.Context) error
	// Ready, when set, is waited for before the next part is started.
	Ready <-chan struct{}
	// Drain, when set, is called once before any part is stopped: from then on
	// the part says that it wants no new work, and goes on working. It must not
	// wait.
	Drain func()
}

// Limits bound how a process stops.
type Limits struct {
	// Drain is how long everything goes on after Part.Drain was called, so that load
	// balancers see it and go elsewhere.
	Drain time.Duration
	// Grace bounds the stopping of all parts together.
	Grace time.Duration
}

// ErrStuck is in Run's error when parts had not ended after the grace.
var ErrStuck = errors.New("did not stop in time")

// Signals gives a context that ends at the first SIGINT or SIGTERM. A second
// one ends the process at once, as if nobody listened: nobody does any more when the
// context ends. The cancel function must be called.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	first := make(chan os.Signal, 1)
	signal.Notify(first, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-first:
		case <-ctx.Done():
		}
		signal.Stop(first)
		cancel()
	}()
	return ctx, cancel
}

// running is a started part: cancel asks it to stop, ended is closed after err
// is set.
type running struct {
	Part
	cancel context.CancelCauseFunc
	ended  chan struct{}
	err    error
}

// Run starts the parts in order and runs them until ctx ends or one of them
// returns, with or without an error. Then it tells all of them to drain and, when
// it was ctx, goes on for limits.Drain; then it stops them one by one, the last
// started first, each only when those after it have ended; limits.Grace bounds
// all of that together. It returns the errors of the parts, named; nil when there
// are none. The end of ctx is not an error.
func Run(ctx context.Context, log *slog.Logger, limits Limits, parts ...Part) error {
	first := make(chan *running, len(parts))
	var started []*running
	for _, p := range parts {
		r := start(ctx, p, first)
		started = append(started, r)
		if !r.waitReady(ctx, first) {
			break
		}
	}
	select {
	case <-ctx.Done():
		log.Info("draining", "because", "asked to", "for", limits.Drain)
		drain(started)
		delay := time.NewTimer(limits.Drain)
		defer delay.Stop()
		select {
		case <-delay.C:
			log.Info("stopping", "because", "asked to")
		case r := <-first:
			ended(log, r)
		}
	case r := <-first:
		drain(started)
		ended(log, r)
	}
	return stop(started, limits.Grace)
}

// drain tells all parts, the last started first.
func drain(started []*running) {
	for i := len(started) - 1; i >= 0; i-- {
		if d := started[i].Drain; d != nil {
			d()
		}
	}
}

func ended(log *slog.Logger, r *running) {
	if r.err != nil {
		log.Error("stopping", "because", r.err)
		return
	}
	log.Info("stopping", "because", r.Name+" ended")
}

// start runs a part under a context that does not end with ctx but when the part
// is stopped in its turn.
func start(ctx context.Context, p Part, first chan<- *running) *running {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{Part: p, cancel: cancel, ended: make(chan struct{})}
	go func() {
		if err := p.Run(own); err != nil && !(own.Err() != nil && errors.Is(err, context.Canceled)) {
			r.err = fmt.Errorf("%s: %w", p.Name, err)
		}
		close(r.ended)
		first <- r
	}()
	return r
}

// waitReady is false when some part ended, or ctx did, before r was ready.
func (r *running) waitReady(ctx context.Context, first chan *running) bool {
	if r.Ready == nil {
		return true
	}
	select {
	case <-r.Ready:
		return true
	case ended := <-first:
		first <- ended
		return false
	case <-ctx.Done():
		return false
	}
}

func stop(started []*running, grace time.Duration) error {
	limit := time.NewTimer(grace)
	defer limit.Stop()
	finish := finishBy{time.Now().Add(finishWithin)}
	var errs []error
	var stuck []string
	for i := len(started) - 1; i >= 0; i-- {
		r := started[i]
		r.cancel(finish)
		select {
		case <-r.ended:
		case <-limit.C:
			limit.Reset(0) // those before get no more time either
			select {
			case <-r.ended:
			default:
				stuck = append(stuck, r.Name)
				continue
			}
		}
		errs = append(errs, r.err)
	}
	if stuck != nil {
		errs = append(errs, fmt.Errorf("%s %w (%v)", strings.Join(stuck, ", "), ErrStuck, grace))
	}
	return errors.Join(errs...)
}
