package rpc

import (
	"net"
	"os"
	"os/exec"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
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
