package sqlshard

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"cellgate/internal/fault"
	"cellgate/internal/testwait"
	"cellgate/shard"
)

// If a lane is fenced, both its Tail and its Apply fail, and name the reason.
func TestFencedLane_ReadsAndWrites_NameByWhat(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		s := newStand(t, opts)
		another := openAt(t, opts)
		defer mustClose(t, another)
		if _, _, err := s.Tail(t.Context(), nil, 10); err != nil {
			t.Fatalf("Tail of a lane that is not fenced: %v", err)
		}
		if _, err := another.OpenLane(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		const why = "replica r has begun incarnation 2, which ended incarnation 1"
		_, _, read := s.Tail(t.Context(), nil, 10)
		for what, err := range map[string]error{"Tail": read, "Apply": s.claim(1)} {
			if !errors.Is(err, shard.ErrFenced) || fault.KindOf(err) != fault.CellUnavailable || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := s.OpenLane(t.Context(), "r"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Tail(t.Context(), nil, 10); err != nil {
			t.Errorf("Tail of the next incarnation: %v", err)
		}
	})
}

// Of two processes that start at once with the name of one replica, one fences the other.
func TestOpenLane_TwiceAtOnce_OneIsFenced(t *testing.T) {
	s := newStand(t, testOptions(newDatabase(t)))
	release := holdLocks(t, s.opts.URL, "UPDATE lanes SET floor = floor") // of the incarnation before
	opened := make(chan error, 2)
	for n := range 2 {
		go func() {
			_, err := s.OpenLane(t.Context(), "r")
			opened <- err
		}()
		awaitLocked(t, s.opts.URL, n+1)
	}
	release()
	for range 2 {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
	if n := count(t, s.Store, "SELECT count(*) FROM lanes WHERE NOT fenced"); n != 1 {
		t.Errorf("%d lanes of the replica are not fenced, want 1", n)
	}
}

// holdLocks runs a statement in a transaction of its own, which ends at the call of release.
func holdLocks(t *testing.T, url, sql string) (release func()) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	for _, sql := range []string{"BEGIN", sql} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if _, err := c.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitLocked waits until n sessions in a database wait for locks.
func awaitLocked(t *testing.T, url string, n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	end := time.Now().Add(testwait.Limit)
	for waiting := -1; waiting < n; {
		if time.Now().After(end) {
			t.Fatalf("%d sessions wait for locks, want %d", waiting, n)
		}
		const sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
		if err := c.QueryRow(t.Context(), sql).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}
