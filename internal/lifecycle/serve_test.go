package lifecycle

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowServer has a call whose handler returns when the test allows it. ended is closed when the
// server ends the call.
type slowServer struct {
	ended    chan struct{}
	end      sync.Once
	returned <-chan struct{}
}

func (s *slowServer) Serve(net.Listener) error { <-s.returned; return nil }
func (s *slowServer) GracefulStop()            { <-s.returned }
func (s *slowServer) Stop()                    { s.end.Do(func() { close(s.ended) }); <-s.returned }

func TestGRPC_HandlerIgnoresItsContext_StopIsBoundedAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		returned := make(chan struct{})
		s := &slowServer{ended: make(chan struct{}), returned: returned}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, quiet, Limits{Grace: time.Hour}, GRPC("api", s, nil)) }()
		synctest.Wait()
		cancel()
		began := time.Now()
		if err := <-done; !errors.Is(err, ErrStuck) {
			t.Errorf("%v, want that the server is stuck", err)
		}
		if took, want := time.Since(began), finishWithin+endWithin; took != want {
			t.Errorf("stopped in %v, want %v", took, want)
		}
		close(returned)
		synctest.Wait()
	})
}

// Servers that stop one after the other share finishWithin. dev runs several, and each may have a
// call that does not end by itself.
func TestRun_ManyServersWithLongCalls_StopWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parts []Part
		for range 8 {
			ended := make(chan struct{})
			parts = append(parts, GRPC("cell", &slowServer{ended: ended, returned: ended}, nil))
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, quiet, Limits{Grace: 25 * time.Second}, parts...) }()
		synctest.Wait()
		cancel()
		began := time.Now()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took, want := time.Since(began), finishWithin+7*finishAtLeast; took != want {
			t.Errorf("stopped in %v, want %v", took, want)
		}
	})
}
