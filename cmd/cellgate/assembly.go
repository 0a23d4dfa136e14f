package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"cellgate/internal/health"
	"cellgate/internal/lifecycle"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
)

// shutdownWithin bounds how long a process takes to stop once it has drained.
const shutdownWithin = 25 * time.Second

// assembly collects the parts of a process, in the order in which they start, and what it opens before
// they run.
type assembly struct {
	log       *slog.Logger
	telemetry *telemetry.Process
	// drain is how long the process goes on after somebody asked it to stop.
	drain time.Duration
	// memTable is pebbleshard.Options.MemTable of the process's cells.
	memTable uint64
	parts    []lifecycle.Part
	open     []io.Closer
}

// add adds parts.
func (a *assembly) add(p ...lifecycle.Part) { a.parts = append(a.parts, p...) }

// listen opens a listener; flag names the setting of its address.
func (a *assembly) listen(addr, flag string) (net.Listener, error) {
	l, err := lifecycle.Listen(addr, flag)
	if err != nil {
		return nil, err
	}
	a.open = append(a.open, listenerCloser{l})
	return l, nil
}

// own adds a part that closes c. It ends after all parts that are added later.
func (a *assembly) own(name string, c io.Closer) {
	a.open = append(a.open, c)
	a.add(lifecycle.Part{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		a.open = slices.DeleteFunc(a.open, func(o io.Closer) bool { return o == c })
		return c.Close()
	}})
}

// reportHealth adds a part that sets a server's health service to what the monitor says. When the
// process drains, it first reports that the server is not ready.
func (a *assembly) reportHealth(name string, m *health.Monitor, h *rpc.Health) {
	a.add(lifecycle.Part{
		Name:  "health of " + name,
		Run:   func(ctx context.Context) error { return m.Run(ctx, h.Set) },
		Drain: func() { m.Drain(); h.Drain() },
	})
}

// run runs the parts until ctx ends or one of them does.
func (a *assembly) run(ctx context.Context) error {
	err := lifecycle.Run(ctx, a.log, lifecycle.Limits{Drain: a.drain, Grace: shutdownWithin}, a.parts...)
	if errors.Is(err, lifecycle.ErrStuck) {
		return err // a stuck part may still use what is open
	}
	return errors.Join(err, a.close())
}

// abandon closes what is open and gives err, since nothing runs. When ctx has ended, the stop was asked
// for: it gives no error.
func (a *assembly) abandon(ctx context.Context, err error) error {
	if closing := a.close(); closing != nil {
		a.log.Warn("closing what was opened", "err", closing)
	}
	if ctx.Err() != nil {
		a.log.Info("stopping", "because", "asked to, before it ran", "err", err)
		return nil
	}
	return err
}

// close closes what is still open, the last opened first. The parts that ran have closed their own.
func (a *assembly) close() error {
	var errs []error
	for i := len(a.open) - 1; i >= 0; i-- {
		errs = append(errs, a.open[i].Close())
	}
	a.open = nil
	return errors.Join(errs...)
}

// listenerCloser closes a listener. It gives no error when the server has closed it already.
type listenerCloser struct{ net.Listener }

func (c listenerCloser) Close() error {
	if err := c.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
