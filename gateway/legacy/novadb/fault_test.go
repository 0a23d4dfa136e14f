package novadb

import (
	"context"
	"errors"
	"testing"
	"time"

	"cellgate/gateway/legacy/legacytest"
)

// bounded runs a call that is to fail, and demands that it does within limit.
func bounded(t *testing.T, limit time.Duration, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		t.Error("it does not end")
		return <-done
	}
}

// aMoment is far more than any call below may take on a busy machine.
const aMoment = 30 * time.Second

// The server of both databases is frozen, then killed and started again, then frozen once more.
func TestFaultsOfServers(t *testing.T) {
	legacytest.OneServer(t, func(t *testing.T, k legacytest.Kind) {
		s := k.New(t)
		w := worldOn(t, k, s, 20, func(c *Config) { c.QueryTimeout = 2 * time.Second })
		x := w.load()
		refresh := func() error {
			y, err := w.Refresh(t.Context(), x)
			if err != nil && y != nil {
				t.Error("an error and a snapshot")
			}
			return err
		}

		s.Freeze(t)
		err := bounded(t, aMoment, refresh)
		s.Thaw(t)
		unavailable(t, err, "cell", TimedOut)
		w.refresh(x)

		s.Kill(t)
		for range 3 { // a connection of the pool each, then none
			unavailable(t, bounded(t, aMoment, refresh), "cell", Unreachable)
		}
		s.Run(t)
		x = w.refresh(x)
		if len(x.Hosts) != 20 {
			t.Errorf("%d hosts after the server came back", len(x.Hosts))
		}

		// While the server is frozen, the caller's own deadline and cancellation count, too.
		s.Freeze(t)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = w.Refresh(ctx, x)
		unavailable(t, err, "cell", TimedOut)
		gone, giveUp := context.WithCancel(t.Context())
		giveUp()
		_, err = w.Refresh(gone, x)
		unavailable(t, err, "cell", Cancelled)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the cause is lost: %v", err)
		}
		s.Thaw(t)
		w.refresh(x)
	})
}

// A connection ends after any number of bytes: within a page, between pages, or in the greeting. The result is an error
// or everything, never a part, and the next refresh works.
func TestFaultsOfConnections(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		s := k.Shared(t)
		cell, api := newProxy(t, s.Addr()), newProxy(t, s.Addr())
		w := newWorld(t, k, 40, func(c *Config) {
			c.Database.URL, c.API.URL = at(t, c.Database.URL, cell.address()), at(t, c.API.URL, api.address())
			c.ServiceDownTime = time.Hour // no host is down before the end, however slow the machine
		})
		x := w.load()
		for role, p := range map[string]*proxy{"cell": cell, "api": api} {
			failed := 0
			for _, bytes := range []int{0, 1, 30, 77, 200, 500, 1000, 1500, 3000, 6000, 12000, 18000, 24000} {
				p.cutAfter(bytes)
				y, err := w.Load(t.Context())
				if p.countCuts() > 0 && err == nil || (err == nil) != (y != nil) {
					t.Errorf("%s database cut after %d bytes: %v, a snapshot: %t", role, bytes, err, y != nil)
				}
				if err != nil {
					failed++
					unavailable(t, err, role, Unreachable)
				} else if diff := differ(x, y); diff != "" {
					t.Errorf("cut after %d bytes: %s", bytes, diff)
				}
				p.cutAfter(-1)
				if y, err = w.Refresh(t.Context(), x); err != nil {
					t.Errorf("the refresh after a cut: %v", err)
				} else if diff := differ(x, y); diff != "" {
					t.Errorf("the refresh after a cut: %s", diff)
				}
			}
			if failed < 6 {
				t.Errorf("only %d cuts of the %s database were felt", failed, role)
			}
		}
	})
}

// A statement that goes on for too long ends on the server, too.
func TestFaultsOfSlowStatements(t *testing.T) {
	legacytest.Servers(t, func(t *testing.T, k legacytest.Kind) {
		w := newWorld(t, k, 1, func(c *Config) { c.QueryTimeout = time.Second })
		s, err := w.Reader.cell.openSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.close(t.Context())
		slow := "SELECT pg_sleep(60)"
		if k == legacytest.MariaDB {
			slow = "SELECT sleep(60)"
		}
		// The call has no deadline of its own: the server's limit ends it.
		_, err = s.conn.ExecContext(t.Context(), slow)
		unavailable(t, s.failed(t.Context(), err), "cell", TimedOut)
	})
}
