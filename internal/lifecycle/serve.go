package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

// finishWithin is how long all servers of a process may finish their calls when it stops. A selection
// takes longer only if its caller allows that and cells are slow.
const finishWithin = 10 * time.Second

// finishAtLeast is the part of it that a server gets even if others used it up. endWithin is how long
// handlers of cancelled calls may take to return. Stop also waits for connections that have sent
// nothing: they end within the server's connection timeout (10 s).
const (
	finishAtLeast = time.Second
	endWithin     = 10 * time.Second
)

// finishBy is the cause with which a part's context ends when the process stops.
type finishBy struct{ time.Time }

func (finishBy) Error() string { return "the process stops" }

func (finishBy) Is(target error) bool { return target == context.Canceled }

// finishTime is how long a server whose context has ended may finish its calls.
func finishTime(ctx context.Context) time.Duration {
	if by, ok := errors.AsType[finishBy](context.Cause(ctx)); ok {
		return max(time.Until(by.Time), finishAtLeast)
	}
	return finishWithin
}

// GRPCServer is the part of grpc.Server that GRPC needs.
type GRPCServer interface {
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// GRPC serves s on all listeners. When it stops, calls may finish for a while and are then cancelled.
// If a handler still does not return, the error is ErrStuck.
func GRPC(name string, s GRPCServer, listeners ...net.Listener) Part {
	return Part{Name: name, Run: func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, l := range listeners {
			g.Go(func() error {
				err := s.Serve(l)
				if errors.Is(err, grpc.ErrServerStopped) && ctx.Err() != nil {
					return nil // it was stopped before it began
				}
				return err
			})
		}
		g.Go(func() error {
			<-ctx.Done()
			s.GracefulStop()
			return nil
		})
		ended := make(chan error, 1)
		go func() { ended <- g.Wait() }()
		<-ctx.Done()
		hard := time.NewTimer(finishTime(ctx))
		defer hard.Stop()
		select {
		case err := <-ended:
			return err
		case <-hard.C:
		}
		go s.Stop() // waits for handlers, as GracefulStop does
		hard.Reset(endWithin)
		select {
		case err := <-ended:
			return err
		case <-hard.C:
			return fmt.Errorf("handlers of calls that were ended %w (%v)", ErrStuck, endWithin)
		}
	}}
}

// HTTP serves h on l. While it drains, every answer closes its connection, so that the client's next
// request goes elsewhere and none meets a connection that is being closed. When it stops, requests may
// finish for a while and are then cancelled.
func HTTP(name string, h http.Handler, l net.Listener, log *slog.Logger) Part {
	var draining atomic.Bool
	closing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
	return Part{Name: name, Drain: func() { draining.Store(true) }, Run: func(ctx context.Context) error {
		all := newConns()
		s := &http.Server{
			Handler:           closing,
			ConnState:         all.saw,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       30 * time.Second,
			WriteTimeout:      60 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		}
		g, ctx := errgroup.WithContext(ctx)
		shut := make(chan struct{})
		g.Go(func() error {
			defer close(shut)
			err := s.Serve(l)
			if ctx.Err() != nil && errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		})
		g.Go(func() error {
			<-ctx.Done()
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime(ctx))
			defer cancel()
			draining.Store(true)
			// First accept no new connections, then answer the open requests, then close the idle
			// connections.
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				return err
			}
			select {
			case <-shut:
				all.settle(within)
			case <-within.Done():
			}
			if err := s.Shutdown(within); err != nil {
				return s.Close()
			}
			return nil
		})
		return g.Wait()
	}}
}
