package sqlshard

import (
	"errors"
	"slices"
	"testing"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// A replica that starts again and again leaves many fenced lanes. The journal is read within the statement timeout
// all the same, and lanes that were read to their end are not read again.
func TestTail_ReplicaStarted200Times_ReadsEndedLanesOnce(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		const incarnations, entries = 200, 40
		s := newStand(t, at.options(at.database(t)))
		_, from, err := shardtest.LoadRows(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for n := range incarnations {
			l, err := s.OpenLane(t.Context(), "again")
			if err != nil {
				t.Fatal(err)
			}
			if n%(incarnations/entries) == 0 {
				if _, err := l.Apply(t.Context(), []shard.Op{{Claim: shardtest.NewClaim(n, 1, 1)}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		// read follows the journal from a cursor, a few entries at a time.
		read := func(at shard.Cursor) (found int, end shard.Cursor) {
			t.Helper()
			for {
				list, next, err := s.Tail(t.Context(), at, 7)
				if err != nil {
					t.Fatal(err)
				}
				if len(list) == 0 {
					return found, next
				}
				found, at = found+len(list), next
			}
		}
		found, end := read(from)
		if found != entries {
			t.Errorf("%d entries are found, want %d", found, entries)
		}
		// The lanes that are not fenced: the stand's, and the newest incarnation's.
		seen := s.lanes.Load()
		if unread := seen.unread(seen.all, end); len(unread) != 2 {
			t.Errorf("at the end %d lanes are read again, want 2: %v", len(unread), unread)
		}
		if err := s.claim(incarnations); err != nil {
			t.Fatal(err)
		}
		if found, _ := read(end); found != 1 {
			t.Errorf("%d entries follow, want 1", found)
		}
		if found, _ := read(from); found != entries+1 {
			t.Errorf("%d entries follow an older cursor, want %d", found, entries+1)
		}

		// The database is restored to a state from before a lane was fenced.
		i := slices.IndexFunc(seen.all, func(l laneRow) bool { return l.fenced })
		if _, err := s.pool.Exec(t.Context(), "UPDATE lanes SET fenced = false WHERE replica = $1 AND incarnation = $2",
			seen.all[i].id.Replica, int64(seen.all[i].id.Incarnation)); err != nil {
			t.Fatal(err)
		}
		read(end)
		if seen := s.lanes.Load(); len(seen.unread(seen.all, end)) != 3 {
			t.Error("a lane that is no longer fenced is not read")
		}
	})
}

// After a failover to a standby that lacked the last transactions, the entries that a replica read last are missing. A
// cursor at one of them is broken, since loading again would not bring it to what the database has.
func TestTail_EntryThatWasReadIsLost_IsBroken(t *testing.T) {
	onServersAndAlike(t, func(t *testing.T, at site) {
		opts := at.options(at.database(t))
		writer := newStand(t, opts)
		reader := openAt(t, opts)
		defer mustClose(t, reader)
		_, behind, err := shardtest.LoadRows(t.Context(), reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(writer.claim(1), writer.claim(2)); err != nil {
			t.Fatal(err)
		}
		_, end, err := reader.Tail(t.Context(), behind, 10)
		if err != nil {
			t.Fatal(err)
		}
		broken := func(when string) {
			t.Helper()
			if _, _, err := reader.Tail(t.Context(), end, 10); !errors.Is(err, shard.ErrBroken) {
				t.Errorf("%s: Tail: %v, want %v", when, err, shard.ErrBroken)
			}
		}
		exec(t, opts.URL, "DELETE FROM journal WHERE seq = 3")
		broken("the last entry is lost")
		if list, _, err := reader.Tail(t.Context(), behind, 10); err != nil || len(list) != 1 {
			t.Errorf("a reader that had not read it: %d entries, %v", len(list), err)
		}
		exec(t, opts.URL, "DELETE FROM journal", "DELETE FROM lanes")
		broken("the lane is lost")
	})
}
