package lifecycle

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// journal records what parts do, in order.
type journal struct {
	mu  sync.Mutex
	log []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log = append(j.log, s)
}

// part runs until it is stopped or fails with what comes from fail.
func (j *journal) part(name string, fail <-chan error) Part {
	ready := make(chan struct{})
	return Part{Name: name, Ready: ready, Run: func(ctx context.Context) error {
		j.add("+" + name)
		close(ready)
		select {
		case <-ctx.Done():
			j.add("-" + name)
			return ctx.Err()
		case err := <-fail:
			j.add("!" + name)
			return err
		}
	}}
}

func TestRunStopsInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, quiet, Limits{Grace: time.Second}, j.part("store", nil), j.part("cell", nil), j.part("api", nil))
		}()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if want := []string{"+store", "+cell", "+api", "-api", "-cell", "-store"}; !slices.Equal(j.log, want) {
			t.Errorf("order %v, want %v", j.log, want)
		}
	})
}

func TestRunEndsWithTheFirstPartAndNamesItsError(t *testing.T) {
	for name, fail := range map[string]error{"with an error": errors.New("broken"), "without": nil} {
		t.Run(name, func(t *testing.T) {
			var j journal
			ends := make(chan error, 1)
			ends <- fail
			err := Run(t.Context(), quiet, Limits{Grace: time.Second}, j.part("store", nil), j.part("cell", ends))
			if fail == nil && err != nil || fail != nil && (!errors.Is(err, fail) || !strings.Contains(err.Error(), "cell: broken")) {
				t.Errorf("Run: %v", err)
			}
			if want := []string{"+store", "+cell", "!cell", "-store"}; !slices.Equal(j.log, want) {
				t.Errorf("order %v, want %v", j.log, want)
			}
		})
	}
}

func TestRunDoesNotStartWhatFollowsAFailure(t *testing.T) {
	var j journal
	bad := Part{Name: "bad", Ready: make(chan struct{}), Run: func(context.Context) error { return errors.New("broken") }}
	if err := Run(t.Context(), quiet, Limits{Grace: time.Second}, j.part("store", nil), bad, j.part("api", nil)); err == nil {
		t.Error("no error")
	}
	if want := []string{"+store", "-store"}; !slices.Equal(j.log, want) {
		t.Errorf("order %v, want %v", j.log, want)
	}
}

func TestRunBoundsShutdownAndNamesWhatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		stuck := Part{Name: "hanger", Run: func(context.Context) error { <-let; return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		before := time.Now()
		err := Run(ctx, quiet, Limits{Grace: 7 * time.Second}, stuck)
		if d := time.Since(before); d != 8*time.Second {
			t.Errorf("ended after %v, want 8s", d)
		}
		if !errors.Is(err, ErrStuck) || !strings.Contains(err.Error(), "hanger") {
			t.Errorf("error %v, want one that names hanger", err)
		}
		close(let)
		synctest.Wait()
	})
}

func TestSignalEndsTheContext(t *testing.T) {
	ctx, stop := Signals(t.Context())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
}

func TestListenErrorsSayWhatToChange(t *testing.T) {
	l, err := Listen("127.0.0.1:0", "grpc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	addr := l.Addr().String()
	_, err = Listen(addr, "grpc")
	if err == nil || !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--grpc") {
		t.Errorf("error = %v, want the address, that it is in use, and --grpc", err)
	}
	if _, err = Listen("127.0.0.1:notaport", "http"); err == nil || !strings.Contains(err.Error(), "--http") {
		t.Errorf("error = %v, want one that names --http", err)
	}
}

func TestServersServeAndStop(t *testing.T) {
	web, err := Listen("127.0.0.1:0", "http")
	if err != nil {
		t.Fatal(err)
	}
	api, err := Listen("127.0.0.1:0", "grpc")
	if err != nil {
		t.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, quiet, Limits{Grace: 10 * time.Second}, GRPC("api", grpc.NewServer(), api), HTTP("web", hello, web, quiet))
	}()
	resp, err := http.Get("http://" + web.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "hello" {
		t.Errorf("body %q, error %v", body, err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	conn, err := net.Dial("tcp", api.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestServerErrorEndsRun(t *testing.T) {
	l, err := Listen("127.0.0.1:0", "http")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // Accept fails at once
	err = Run(t.Context(), quiet, Limits{Grace: time.Second}, HTTP("web", http.NotFoundHandler(), l, quiet))
	if err == nil || !strings.HasPrefix(err.Error(), "web: ") {
		t.Errorf("Run: %v, want an error named web", err)
	}
}

// A process that is stopped before its server began to serve has not failed. A server that fails to
// serve without a stop has.
func TestAServerThatNeverBeganEndsWell(t *testing.T) {
	for _, asked := range []bool{true, false} {
		ctx, stop := context.WithCancel(t.Context())
		if asked {
			stop()
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		s.Stop()
		if err := GRPC("server", s, l).Run(ctx); (err == nil) != asked {
			t.Errorf("asked to stop: %v, gave %v", asked, err)
		}
		stop()
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			_ = c.Close()
			t.Error("it still listens")
		}
	}
}
