package health

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func get(t *testing.T, h http.HandlerFunc) (int, Report) {
	t.Helper()
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var r Report
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return w.Code, r
}

func TestReadyNamesEachCheckAndWhy(t *testing.T) {
	var full atomic.Bool
	m := New(nil, func() []Check {
		if full.Load() {
			return []Check{{Name: "store", OK: true}, {Name: "queue", Why: "is full"}}
		}
		return []Check{{Name: "store", OK: true}, {Name: "queue", OK: true}}
	})
	if code, r := get(t, m.ServeReady); code != 200 || r.Status != "ready" || len(r.Checks) != 3 {
		t.Errorf("ready: %d %+v", code, r)
	}
	full.Store(true)
	code, r := get(t, m.ServeReady)
	if code != 503 || r.Status != "not ready" || !slices.Contains(r.Checks, Check{Name: "queue", Why: "is full"}) {
		t.Errorf("full: %d %+v", code, r)
	}
	if code, r := get(t, m.ServeAlive); code != 200 || r.Status != "ok" {
		t.Errorf("alive: %d %+v", code, r)
	}
}

func TestADrainingProcessIsAliveAndNotReady(t *testing.T) {
	m := New(nil, func() []Check { return nil })
	m.Drain()
	if code, r := get(t, m.ServeReady); code != 503 || r.Checks[0].Name != "draining" || r.Checks[0].OK || r.Checks[0].Why == "" {
		t.Errorf("ready: %d %+v", code, r)
	}
	if code, _ := get(t, m.ServeAlive); code != 200 || !m.Draining() {
		t.Errorf("alive: %d, draining %v", code, m.Draining())
	}
}

func TestAliveFailsWithItsCheck(t *testing.T) {
	m := New(func() []Check { return []Check{{Name: "loop", Why: "stood still for 20s"}} }, func() []Check { return nil })
	if code, r := get(t, m.ServeAlive); code != 503 || r.Status != "failing" {
		t.Errorf("alive: %d %+v", code, r)
	}
}

func TestRun_StatusChanges_SendsEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ok atomic.Bool
		m := New(nil, func() []Check { return []Check{{Name: "store", OK: ok.Load()}} })
		changes := make(chan bool, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx, func(ready bool) { changes <- ready }) }()
		for _, want := range []bool{false, true, false} {
			ok.Store(want)
			if got := <-changes; got != want {
				t.Errorf("told %v, want %v", got, want)
			}
			time.Sleep(10 * everyCheck) // nothing more is told while nothing changes
			synctest.Wait()
			if len(changes) != 0 {
				t.Errorf("told %v again", <-changes)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestChanged_StatusChanged_IsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ok atomic.Bool
		m := New(nil, func() []Check { return []Check{{Name: "table", OK: ok.Load()}} })
		changes := make(chan bool, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx, func(ready bool) { changes <- ready }) }()
		<-changes
		ok.Store(true)
		began := time.Now()
		m.Changed()
		if got := <-changes; !got || time.Since(began) != 0 {
			t.Errorf("told %v after %v", got, time.Since(began))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAlso_CheckOfAnotherPart_CountsForReadiness(t *testing.T) {
	m := New(nil, nil)
	m.Also(func() Check { return Check{Name: "bus", Why: "not connected"} })
	if code, r := get(t, m.ServeReady); code != 503 || !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == "bus" && !c.OK }) {
		t.Errorf("%d %+v", code, r)
	}
	if code, _ := get(t, m.ServeAlive); code != 200 {
		t.Errorf("alive: %d", code)
	}
}
