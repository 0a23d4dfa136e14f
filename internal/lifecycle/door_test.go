package lifecycle

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Whoever had connected is answered, also who had not yet sent the request.
func TestHTTPAnswersWhoConnectedBeforeItStopped(t *testing.T) {
	l, err := Listen("127.0.0.1:0", "http")
	if err != nil {
		t.Fatal(err)
	}
	var answered atomic.Int64
	web := HTTP("web", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answered.Add(1)
		_, _ = io.WriteString(w, "hello")
	}), l, quiet)
	const n = 50
	callers := make([]net.Conn, n+1)
	for i := range callers {
		// Connected by the kernel; nobody accepts yet.
		if callers[i], err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- web.Run(ctx) }()
	first := func(c net.Conn) string {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			return err.Error()
		}
		text, err := io.ReadAll(c) // the answer closes the connection
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	if got := first(callers[n]); !strings.HasSuffix(got, "hello") {
		t.Errorf("before: %q", got)
	}
	_ = callers[n].Close()
	cancel()
	for i, c := range callers[:n] {
		if got := first(c); !strings.HasPrefix(got, "HTTP/1.1 200 OK") || !strings.HasSuffix(got, "hello") {
			t.Errorf("caller %d got %q", i, got)
		}
		_ = c.Close()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if answered.Load() != n+1 {
		t.Errorf("%d requests were answered, want %d", answered.Load(), n+1)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
}

// Who has connected is let in after Close, and then the port is shut.
func TestADoorLetsInWhoHasCome(t *testing.T) {
	l, err := Listen("127.0.0.1:0", "http")
	if err != nil {
		t.Fatal(err)
	}
	const n = 20
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	in := 0
	accept := func() error {
		c, err := l.Accept()
		if err == nil {
			in++
			_ = c.Close()
		}
		return err
	}
	if err := accept(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = accept()
	}
	if in != n || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%d came in, then %v; want %d and that it is closed", in, err, n)
	}
}

func TestADoorThatWasNeverServedShutsAtOnce(t *testing.T) {
	l, err := Listen("127.0.0.1:0", "grpc")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(addr, "grpc")
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
