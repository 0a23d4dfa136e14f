package lifecycle

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// draining is a part of the journal that records when it is asked to drain.
func (j *journal) draining(name string, fail <-chan error) Part {
	p := j.part(name, fail)
	p.Drain = func() { j.add("~" + name) }
	return p
}

func TestRunDrainsBeforeItStopsAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, quiet, Limits{Drain: 2 * time.Second, Grace: time.Second}, j.draining("cell", nil), j.part("api", nil), j.draining("web", nil))
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		j.mu.Lock()
		if want := []string{"+cell", "+api", "+web", "~web", "~cell"}; !slices.Equal(j.log, want) {
			t.Errorf("asked to stop: %v, want %v", j.log, want)
		}
		j.mu.Unlock()
		before := time.Now()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if d := time.Since(before); d != 2*time.Second {
			t.Errorf("went on for %v, want 2s", d)
		}
		if want := []string{"-web", "-api", "-cell"}; !slices.Equal(j.log[5:], want) {
			t.Errorf("order %v, want %v", j.log[5:], want)
		}
	})
}

// If a part ends by itself, the process cannot continue. If a part ends while others drain, the
// wait ends.
func TestRunDoesNotWaitForDrainingWhenAPartEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		broken := errors.New("broken")
		fail := make(chan error, 1)
		fail <- broken
		before := time.Now()
		err := Run(t.Context(), quiet, Limits{Drain: time.Minute, Grace: time.Second}, j.draining("web", nil), j.part("cell", fail))
		if !errors.Is(err, broken) || time.Since(before) != 0 {
			t.Errorf("Run: %v after %v", err, time.Since(before))
		}
		if want := []string{"+web", "+cell", "!cell", "~web", "-web"}; !slices.Equal(j.log, want) {
			t.Errorf("order %v, want %v", j.log, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.AfterFunc(3*time.Second, func() { fail <- broken })
		if err := Run(ctx, quiet, Limits{Drain: time.Minute, Grace: time.Second}, j.part("cell", fail)); !errors.Is(err, broken) || time.Since(before) != 3*time.Second {
			t.Errorf("Run: %v after %v", err, time.Since(before))
		}
	})
}

func TestHTTPClosesConnectionsWhileItDrains(t *testing.T) {
	l, err := Listen("127.0.0.1:0", "http")
	if err != nil {
		t.Fatal(err)
	}
	web := HTTP("web", http.NotFoundHandler(), l, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- web.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	for _, draining := range []bool{false, true} {
		if draining {
			web.Drain()
		}
		resp, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.Close != draining {
			t.Errorf("draining %v: the answer closes its connection: %v", draining, resp.Close)
		}
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
