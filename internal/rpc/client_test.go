package rpc

import (
	"context"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/test/bufconn"
)

// A control node's environment may name a proxy. Calls between cellgate's processes do not use it.
// Go reads the environment once per process, so the test runs in a new one.
func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	const alone = "CELLGATE_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTheEnvironmentsProxyIsNotUsed$", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	came := make(chan string, 2)
	listen := func(name string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			if c, err := l.Accept(); err == nil {
				came <- name
				_ = c.Close()
			}
		}()
		return l.Addr().String()
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("HTTPS_PROXY", "http://"+listen("the proxy"))
	cells := manual.NewBuilderWithScheme("dns")
	cells.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: listen("the cell")}}})
	conn, err := Dial("dns:///cell1.internal.example:9101", grpc.WithResolvers(cells))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	conn.Connect()
	if got := <-came; got != "the cell" {
		t.Errorf("the connection went to %s", got)
	}
}

// busyListener begins with a connection five seconds after it came, like a server with thousands of handshakes.
type busyListener struct{ *bufconn.Listener }

func (l busyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	time.Sleep(5 * time.Second)
	return c, err
}

func TestPatient_BusyServer_IsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(slog.New(slog.DiscardHandler))
		ServeHealth(s).Set(true)
		l := busyListener{bufconn.Listen(1 << 16)}
		done := make(chan error, 1)
		go func() { done <- s.Serve(l) }()
		conn, err := Dial("passthrough:///busy", Patient(), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return l.DialContext(ctx)
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), handshakeWithin)
		defer cancel()
		if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
