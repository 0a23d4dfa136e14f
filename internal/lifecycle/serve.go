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

// finishWithin is how long all servers of a process let what they work on finish when it
// stops. A selection takes longer only when its caller allowed that and cells are slow.
const finishWithin = 10 * time.Second

// finishAtLeast is what a server has of that when others used it up, endWithin how long the
// handlers of calls that were ended may take to return. A connection that has sent nothing
// ends within the server's connection timeout (10 s), which Stop waits for too.
const (
	finishAtLeast = time.Second
	endWithin     = 10 * time.Second
)

// finishBy is the cause of the end of a part's context when the process stops.
type finishBy struct{ time.Time }

func (finishBy) Error() string { return "the process stops" }

func (finishBy) Is(target error) bool { return target == context.Canceled }

// finishTime is how long a server whose context has ended lets calls finish.
func finishTime(ctx context.Context) time.Duration {
	if by, ok := errors.AsType[finishBy](context.Cause(ctx)); ok {
		return max(time.Until(by.Time), finishAtLeast)
	}
	return finishWithin
}

// GRPCServer is what GRPC needs of a grpc.Server.
type GRPCServer interface {
	Serve(l net.Listener) error
	GracefulStop()
	Stop()
}

// GRPC serves s on all listeners. Stopping lets calls finish for a while, then ends
// them. A handler that goes on all the same is ErrStuck.
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

// HTTP serves h on l. While it drains every answer closes its connection, so that
// the client's next request goes elsewhere and none meets a connection that is
// being closed. Stopping lets requests finish for a while, then ends them.
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
			// Nobody new; then an answer for everybody who came; then the idle ones.
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
