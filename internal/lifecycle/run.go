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
	// Name identifies the part in errors and the log.
	Name string
	Run  func(ctx context.Context) error
	// Ready, if set, must be closed before the next part is started.
	Ready <-chan struct{}
	// Drain, if set, is called once before any part is stopped. From then on the part announces that it
	// wants no new work, and continues to work. Drain must not block.
	Drain func()
}

// Limits bound how a process stops.
type Limits struct {
	// Drain is how long all parts continue after Part.Drain was called, so that load balancers notice
	// it and choose other processes.
	Drain time.Duration
	// Grace bounds the time in which all parts together must stop.
	Grace time.Duration
}

// ErrStuck is in Run's error if parts had not ended after the grace.
var ErrStuck = errors.New("did not stop in time")

// Signals returns a context that ends at the first SIGINT or SIGTERM. A second signal ends the process
// at once, because the signals are no longer caught then. The caller must call the cancel function.
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

// Run starts the parts in order and runs them until ctx ends or one of them returns, with or without an
// error. Then it drains all of them and, if ctx ended, continues for limits.Drain. Then it stops them
// one by one, in the reverse order of their start, each only when those after it have ended.
// limits.Grace bounds the stopping as a whole. Run returns the named errors of the parts; nil if there
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

// drain calls Drain of all parts, the last started first.
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

// start runs a part under a context that does not end with ctx, but only when the part is stopped.
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

// waitReady returns false if some part, or ctx, ended before r was ready.
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
			limit.Reset(0) // the parts before get no more time either
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
