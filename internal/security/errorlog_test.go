package security

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/security/testca"
)

// However many connections an HTTPS port refuses, few lines are logged.
func TestRefusedConnectionsOfHTTPAreCountedAndLoggedNowAndThen(t *testing.T) {
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{}, 100)
	web := &http.Server{
		Handler: http.NotFoundHandler(), ErrorLog: slog.NewLogLogger(r.s.ErrorLog().Handler(), slog.LevelWarn), ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				closed <- struct{}{}
			}
		},
	}
	var served sync.WaitGroup
	served.Go(func() { _ = web.Serve(r.s.Listener(l)) }) // closed below
	defer func() { _ = web.Close(); served.Wait() }()
	const tries = 40
	for i := range tries {
		if i%2 == 0 {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte("no TLS at all\r\n\r\n")) // the server may close at once
			_ = conn.Close()
			continue
		}
		old := &tls.Config{MaxVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // it is to be refused
		if conn, err := tls.Dial("tcp", l.Addr().String(), old); err == nil {
			_ = conn.Close()
			t.Fatal("TLS 1.2 was taken")
		}
	}
	for range tries {
		<-closed
	}
	if n := strings.Count(r.log.String(), "\n"); n != 1 || !strings.Contains(r.log.String(), `msg="a caller was refused" method="TLS handshake" from=127.0.0.1:`) {
		t.Errorf("%d lines in the log:\n%s", n, r.log)
	}
	if all := r.counts(); len(all) != 1 || all["TLS handshake UNAUTHENTICATED"] != tries {
		t.Errorf("counts %+v", all)
	}
}

// A load balancer's health check opens a connection and closes it. Nobody is refused.
func TestHandshake_CallerLeavesBefore_IsNoRefusal(t *testing.T) {
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	// meet has a caller do something and leave, and gives the counts of both servers.
	meet := func(do func(*net.TCPConn) error) map[string]uint64 {
		for _, serve := range []func(net.Conn){
			func(conn net.Conn) {
				if _, _, err := r.s.credentials().ServerHandshake(conn); err == nil {
					t.Error("the handshake succeeded")
				}
			},
			func(conn net.Conn) { // as net/http does
				if err := tls.Server(conn, r.s.tlsConfig(nil)).Handshake(); err != nil {
					slog.NewLogLogger(r.s.ErrorLog().Handler(), slog.LevelWarn).Printf("http: TLS handshake error from %s: %v", conn.RemoteAddr(), err)
				}
			},
		} {
			caller, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conn, err := l.Accept()
			if err = errors.Join(err, do(caller.(*net.TCPConn)), caller.Close()); err != nil {
				t.Fatal(err)
			}
			serve(conn)
			_ = conn.Close()
		}
		return r.counts()
	}
	for what, do := range map[string]func(*net.TCPConn) error{
		"closes": func(*net.TCPConn) error { return nil },
		"resets": func(c *net.TCPConn) error { return c.SetLinger(0) },
	} {
		if n := meet(do); len(n) != 0 {
			t.Errorf("a caller that %s the connection counts: %v", what, n)
		}
	}
	if n := meet(func(c *net.TCPConn) error { _, err := c.Write([]byte("no TLS at all")); return err }); n["TLS handshake UNAUTHENTICATED"] != 2 {
		t.Errorf("callers without TLS count: %v", n)
	}
}

func TestOtherErrorsOfHTTPAreLoggedAsTheyAre(t *testing.T) {
	log := &buffer{}
	s, err := NewServer(ServerConfig{}, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		slog.NewLogLogger(s.ErrorLog().Handler(), slog.LevelWarn).Print("http: panic serving 127.0.0.1:1: no\ngoroutine 1")
	}
	if n := strings.Count(log.String(), `level=WARN msg="http: panic serving 127.0.0.1:1: no\ngoroutine 1"`); n != 2 || len((&rig{s: s}).counts()) != 0 {
		t.Errorf("%d lines, refused %v:\n%s", n, (&rig{s: s}).counts(), log)
	}
}

// A server starts with a certificate that its callers will refuse, and logs that.
func TestServer_CallersRefuseItsCertificate_IsLogged(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		leaf testca.Leaf
		says []string
	}{
		"expired":   {testca.Leaf{Server: true, To: now.Add(-time.Minute)}, []string{"the certificate ended at"}},
		"not yet":   {testca.Leaf{Server: true, From: now.Add(time.Hour), To: now.Add(2 * time.Hour)}, []string{"is not valid before"}},
		"caller's":  {testca.Leaf{}, []string{"extended key usage is not serverAuth", "no DNS name and no address"}},
		"ends soon": {testca.Leaf{Server: true, To: now.Add(time.Hour)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ca, log := t.TempDir(), testca.New("ours"), &buffer{}
			cert, key := ca.Write(dir, "server", c.leaf)
			s, err := NewServer(ServerConfig{Cert: cert, Key: key}, slog.New(slog.NewTextHandler(log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "level=WARN"); n != len(c.says) {
				t.Errorf("%d warnings, want %d:\n%s", n, len(c.says), log)
			}
			for _, want := range append(c.says, "do=\"put one ")[:min(len(c.says)*2, len(c.says)+1)] {
				if !strings.Contains(log.String(), want) {
					t.Errorf("does not say %q:\n%s", want, log)
				}
			}
			if c.says == nil {
				return
			}
			// A certificate that replaces it is checked too.
			before := strings.Count(log.String(), "level=WARN")
			ca.Write(dir, "server", testca.Leaf{Server: true})
			s.pair.poll(s.log)
			if n := strings.Count(log.String(), "level=WARN"); n != before || !strings.Contains(log.String(), "read again") {
				t.Errorf("a good one:\n%s", log)
			}
			ca.Write(dir, "server", c.leaf)
			s.pair.poll(s.log)
			if n := strings.Count(log.String(), "level=WARN"); n != 2*before {
				t.Errorf("%d warnings, want %d:\n%s", n, 2*before, log)
			}
		})
	}
}
