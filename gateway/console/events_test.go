package console

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// system is a source whose state a test changes.
type system struct {
	reads    atomic.Int32
	newest   atomic.Value
	stopping chan struct{}
	revoked  atomic.Bool
}

func (s *system) serve(t *testing.T) *httptest.Server {
	t.Helper()
	s.stopping = make(chan struct{})
	server := httptest.NewServer(Events(Source{
		Cells: func(context.Context) []*cellgatev1.Cell {
			s.reads.Add(1)
			return []*cellgatev1.Cell{{Cell: "cell1", Hosts: 3}}
		},
		Newest: func(context.Context) (string, error) { return s.newest.Load().(string), nil },
		Admitted: func(*http.Request) error {
			if s.revoked.Load() {
				return errors.New("the token is not known")
			}
			return nil
		},
		Stopping: s.stopping,
		Refuse:   func(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusTooManyRequests) },
	}))
	t.Cleanup(server.Close)
	return server
}

// listener reads events of a stream.
type listener struct {
	*bufio.Scanner
	stop context.CancelFunc
}

func listen(t *testing.T, server *httptest.Server) listener {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("%d, %s", answer.StatusCode, kind)
	}
	return listener{bufio.NewScanner(answer.Body), cancel}
}

// next gives the next event and its data.
func (l listener) next(t *testing.T) (event, data string) {
	t.Helper()
	for l.Scan() {
		line := l.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			event = line
		case strings.HasPrefix(line, "data: "):
			return event, line
		}
	}
	t.Fatalf("the stream ended: %v", l.Err())
	return "", ""
}

func TestEvents_StateChanges_ListenersGetThem(t *testing.T) {
	var s system
	s.newest.Store("cell1.A")
	server := s.serve(t)
	l := listen(t, server)
	if event, data := l.next(t); event != "event: cells" || !strings.Contains(data, `{"cell":"cell1",`) || !strings.Contains(data, `"hosts":3`) {
		t.Errorf("%s %s", event, data)
	}
	if event, data := l.next(t); event != "event: decisions" || data != `data: {"newest":"cell1.A"}` {
		t.Errorf("%s %s", event, data)
	}
	// The cells have not changed: the next event is of the decision.
	s.newest.Store("cell1.B")
	if event, data := l.next(t); event != "event: decisions" || data != `data: {"newest":"cell1.B"}` {
		t.Errorf("%s %s", event, data)
	}
}

func TestEvents_ManyListeners_OneRead(t *testing.T) {
	var s system
	s.newest.Store("")
	server := s.serve(t)
	const listeners = 20
	for range listeners {
		listen(t, server).next(t)
	}
	if n := s.reads.Load(); n >= listeners {
		t.Errorf("%d reads for %d listeners", n, listeners)
	}
}

func TestEvents_MoreThanTheMost_Refused(t *testing.T) {
	var s system
	s.newest.Store("")
	e := Events(Source{
		Refuse: func(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusTooManyRequests) },
	}).(*events)
	e.listeners = maxListeners
	rec := httptest.NewRecorder()
	e.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	if rec.Code != http.StatusTooManyRequests || e.listeners != maxListeners {
		t.Errorf("%d, %d listeners: %s", rec.Code, e.listeners, rec.Body)
	}
}

// A draining gateway ends its streams, so that it does not wait for people to close their pages.
func TestEvents_GatewayStops_StreamEnds(t *testing.T) {
	var s system
	s.newest.Store("")
	l := listen(t, s.serve(t))
	l.next(t)
	close(s.stopping)
	for l.Scan() {
	}
	if l.Err() != nil {
		t.Errorf("the stream broke off: %v", l.Err())
	}
}

func TestEvents_CredentialIsRevoked_StreamEnds(t *testing.T) {
	var s system
	s.newest.Store("cell1.A")
	l := listen(t, s.serve(t))
	l.next(t)
	l.next(t)
	s.revoked.Store(true)
	s.newest.Store("cell1.B")
	for l.Scan() {
		if strings.Contains(l.Text(), "cell1.B") {
			t.Fatal("an event for a caller who is no longer admitted")
		}
	}
	if l.Err() != nil {
		t.Errorf("the stream broke off: %v", l.Err())
	}
}
