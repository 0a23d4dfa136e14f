package sqlshard

import (
	"testing"
	"time"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// Of a replica that starts again and again, only the row of its newest incarnation is left, whether
// or not the others wrote. Concurrent trims drop each lane once.
func TestTrim_LanesOfEndedIncarnations_AreDropped(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		const incarnations = 50
		clock := &testClock{}
		opts := at.options(at.database(t))
		opts.skew = clock.read
		s := newStand(t, opts)
		for n := range incarnations {
			l, err := s.OpenLane(t.Context(), "again")
			if err != nil {
				t.Fatal(err)
			}
			if n%2 == 0 {
				if _, err := l.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(n, 1, 1)}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, from, err := shardtest.LoadRows(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		clock.move(time.Hour)
		now, err := s.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		for range 3 {
			go func() { done <- s.Trim(t.Context(), now) }()
		}
		for range 3 {
			if err := <-done; err != nil {
				t.Errorf("Trim: %v", err)
			}
		}
		// The stand's lane, the newest incarnation, and the lane whose entries drop the others.
		if n := count(t, s.Store, "SELECT count(*) FROM lanes"); n != 3 {
			t.Errorf("there are %d rows of lanes, want 3", n)
		}
		if n := count(t, s.Store, "SELECT count(*) FROM journal"); n != incarnations-1 {
			t.Errorf("the journal tells of %d dropped lanes, want %d", n, incarnations-1)
		}
		_, from, err = s.Tail(t.Context(), from, 100)
		if err != nil || len(from) > 3 {
			t.Errorf("who had all goes on at %v, %v", from, err)
		}
		clock.move(time.Hour)
		if now, err = s.Now(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Trim(t.Context(), now); err != nil {
			t.Errorf("Trim: %v", err)
		}
		if n := count(t, s.Store, "SELECT count(*) FROM journal"); n != 0 {
			t.Errorf("%d entries are left", n)
		}
		if _, _, err := s.Tail(t.Context(), from, 100); err != nil {
			t.Errorf("who had all is told %v", err)
		}
	})
}

func count(t *testing.T, s *Store, sql string) (n int) {
	t.Helper()
	if err := s.pool.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
