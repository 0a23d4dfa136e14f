package ingress

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"cellgate/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// after returns a channel that closes after d, when everything that waits for d has run.
func after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	time.AfterFunc(d+time.Second, func() { close(done) })
	return done
}

// overloadedError reports whether an error is OVERLOADED and has a retry delay.
func overloadedError(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Kind == fault.Overloaded && e.RetryAfter > 0
}

func TestBytes_Total_Bound(t *testing.T) {
	in := New(Limits{Bytes: 10, CallerBytes: 6})
	a, err := in.Body("a", 6)
	must(t, err)
	if _, err := in.Body("a", 1); !overloadedError(err) {
		t.Errorf("above the caller's: %v", err)
	}
	if _, err := in.Body("b", 5); !overloadedError(err) {
		t.Errorf("above the total: %v", err)
	}
	a()
	_, err = in.Body("b", 5)
	must(t, err)
}

func TestHeavy_FewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(Limits{})
		first, err := in.Heavy(t.Context(), heavyCost*2) // more than the limit
		must(t, err)
		light, err := in.Heavy(t.Context(), Light)
		must(t, err)
		light()
		if _, err := in.Heavy(t.Context(), Light+1); !overloadedError(err) {
			t.Errorf("while the first is worked on: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := in.Heavy(ended, Light+1); !errors.Is(err, context.Canceled) {
			t.Errorf("of a caller that is gone: %v", err)
		}
		first()
		next, err := in.Heavy(t.Context(), Light+1)
		must(t, err)
		next()
	})
}

func TestOpen_AddressBound_EndsWithTimeAndCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(Limits{})
		at := func(last byte) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, last), Port: 1} }
		call, end := context.WithCancel(t.Context())
		for range openAddressCalls {
			_, err := in.Open(call, at(1), OpenWithin)
			must(t, err)
		}
		if _, err := in.Open(call, at(1), OpenWithin); !overloadedError(err) {
			t.Errorf("one more of the same address: %v", err)
		}
		late, err := in.Open(t.Context(), at(2), OpenWithin)
		must(t, err)
		end()
		synctest.Wait()
		_, err = in.Open(t.Context(), at(1), OpenWithin)
		must(t, err)
		<-after(OpenWithin)
		in.mu.Lock()
		defer in.mu.Unlock()
		if late.Err() == nil || in.open.total != 0 || len(in.open.each) != 0 {
			t.Errorf("%d calls are counted after their time", in.open.total)
		}
	})
}

func TestCall_CredentialBound_EndsWithTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(Limits{CallerCalls: 2})
		first, end := context.WithCancel(t.Context())
		must(t, in.Call(first, "agent/h1"))
		must(t, in.Call(t.Context(), "agent/h1"))
		if err := in.Call(t.Context(), "agent/h1"); !overloadedError(err) {
			t.Errorf("a third call: %v", err)
		}
		must(t, in.Call(t.Context(), "agent/h2"))
		end()
		synctest.Wait()
		must(t, in.Call(t.Context(), "agent/h1"))
	})
}

func TestListener_AboveTheLimits_Closed(t *testing.T) {
	for name, limits := range map[string]Limits{"total": {Connections: 2}, "address": {AddressConnections: 2}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			in := New(limits)
			accepted := make(chan net.Conn)
			bounded := in.Listener(l)
			go func() {
				defer close(accepted)
				for {
					c, err := bounded.Accept()
					if err != nil {
						return
					}
					accepted <- c
				}
			}()
			dial := func() net.Conn {
				c, err := net.Dial("tcp", l.Addr().String())
				must(t, err)
				t.Cleanup(func() { _ = c.Close() })
				return c
			}
			dial()
			first := <-accepted
			dial()
			second := <-accepted
			refused := dial()
			if _, err := refused.Read(make([]byte, 1)); err == nil {
				t.Error("the third got an answer")
			}
			must(t, first.Close())
			_ = first.Close() // a second Close does not count
			dial()
			must(t, (<-accepted).Close())
			must(t, second.Close())
			must(t, bounded.Close())
			for range accepted {
				t.Error("one more was accepted")
			}
			in.mu.Lock()
			defer in.mu.Unlock()
			if in.connections.total != 0 || len(in.connections.each) != 0 {
				t.Errorf("%d connections are counted at the end", in.connections.total)
			}
		})
	}
}
