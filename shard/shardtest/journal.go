package shardtest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"cellgate/internal/fault"
	"cellgate/shard"
)

func journalClauses() []clause {
	return []clause{
		{name: "TailGivesEveryEntryAsItWasApplied", test: func(s *suite) {
			var want []shard.Entry
			for _, op := range []any{NewHost(1, 8), NewClaim(1, 1, 1), confirm(*Ref(1)), newPin(1, "a"), release(*Ref(1)), unpin(1), moveGate(0, shard.GateLegacy), moveGate(1, shard.GateShadow)} {
				want = append(want, s.apply(opOf(op)).Entry)
			}
			got, at := s.tail(nil, 100)
			if len(got) != len(want) {
				s.Fatalf("%d entries, want %d", len(got), len(want))
			}
			for i := range want {
				if !EqualEntries(got[i], want[i]) {
					s.Errorf("entry %d is %+v, want %+v", i, got[i], want[i])
				}
			}
			if len(at) != 1 || at[s.lane.ID()] != uint64(len(want)) {
				s.Errorf("cursor is %v", at)
			}
			if more, same := s.tail(at, 100); len(more) != 0 || !maps.Equal(at, same) {
				s.Errorf("after the end are %v, %v", more, same)
			}
		}},
		{name: "TailGivesNoRefusals", test: func(s *suite) {
			s.refused(NewClaim(1, 1, 1), fault.NotFound)
			if got, at := s.tail(nil, 100); len(got) != 0 || len(at) != 0 {
				s.Errorf("Tail gave %v, %v", got, at)
			}
		}},
		{name: "ALimitIsKept", test: func(s *suite) {
			other := s.openLane("replica-2")
			for i := range 5 {
				s.do(NewHost(i, 8))
				if _, err := other.Apply(s.ctx, []shard.Op{opOf(NewHost(10+i, 8))}); err != nil {
					s.Fatal(err)
				}
			}
			var at shard.Cursor
			n := 0
			for {
				before := maps.Clone(at)
				got, next := s.tail(at, 3)
				if !maps.Equal(at, before) {
					s.Fatalf("the cursor given was changed to %v", at)
				}
				if len(got) > 3 {
					s.Fatalf("%d entries with a limit of 3", len(got))
				}
				if len(got) == 0 {
					break
				}
				n, at = n+len(got), next
			}
			if n != 10 {
				s.Errorf("Tail gave %d entries, want 10", n)
			}
			if got, _ := s.tail(nil, 0); len(got) != 0 {
				s.Errorf("a limit of 0 gives %d entries", len(got))
			}
		}},
		{name: "ALaneIsNotKeptWaitingByAnother", test: func(s *suite) {
			for i := range 20 {
				s.do(NewHost(i, 8))
			}
			s.lane = s.openLane("replica-2")
			s.do(NewHost(100, 8))
			var at shard.Cursor
			seen := false
			for range 11 {
				var got []shard.Entry
				got, at = s.tail(at, 2)
				seen = seen || slices.ContainsFunc(got, func(e shard.Entry) bool { return e.Lane.Replica == "replica-2" })
			}
			if !seen {
				s.Error("the second lane's entry was not given")
			}
		}},
		{name: "AReaderBesideManyLanesLosesNoEntry", test: readerBeside},
		{name: "LoadAndTailMeet", test: func(s *suite) {
			s.do(NewHost(1, 8), NewClaim(1, 1, 1))
			rows, at, err := LoadRows(s.ctx, s)
			if err != nil {
				s.Fatal(err)
			}
			other := s.openLane("replica-2")
			if _, err := other.Apply(s.ctx, []shard.Op{opOf(NewClaim(2, 1, 2))}); err != nil {
				s.Fatal(err)
			}
			s.do(release(*Ref(1)))
			entries, _ := s.tail(at, 100)
			if len(entries) != 2 {
				s.Fatalf("%d entries after Load, want 2", len(entries))
			}
			for _, e := range entries {
				for _, c := range e.Changes {
					rows.Put(c, e.At)
				}
			}
			for _, d := range s.rows().Diff(rows.Live()) {
				s.Errorf("rows, and Load with Tail: %s", d)
			}
		}},
		{name: "ACursorOfAnotherJournalIsGone", test: func(s *suite) {
			s.do(NewHost(1, 8))
			for _, at := range []shard.Cursor{
				{s.lane.ID(): 2},
				{{Replica: "replica-1", Incarnation: 99}: 1},
				{{Replica: "stranger", Incarnation: s.lane.ID().Incarnation}: 1},
			} {
				if _, _, err := s.Tail(s.ctx, at, 10); fault.KindOf(err) != fault.Gone {
					s.Errorf("Tail from %v: %v, want %s", at, err, fault.Gone)
				}
			}
		}},
	}
}

func (s *suite) tail(from shard.Cursor, limit int) ([]shard.Entry, shard.Cursor) {
	s.Helper()
	e, at, err := s.Tail(s.ctx, from, limit)
	if err != nil {
		s.Fatalf("Tail: %v", err)
	}
	return e, at
}

// readerBeside follows the journal while lanes commit. It compares what it read with what the lanes were answered.
func readerBeside(s *suite) {
	const lanes, each = 6, 60
	s.do(NewHost(1, 1000))
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	read := map[shard.LaneID][]shard.Entry{}
	rows := NewRows()
	var reader sync.WaitGroup
	reader.Go(func() {
		var at shard.Cursor
		for {
			last := ctx.Err() != nil // read once more after the writers have ended
			entries, next, err := s.Tail(s.ctx, at, 7)
			if err != nil {
				s.Errorf("Tail: %v", err)
				return
			}
			for _, e := range entries {
				read[e.Lane] = append(read[e.Lane], e)
				for _, c := range e.Changes {
					rows.Put(c, e.At)
				}
			}
			at = next
			if last && len(entries) == 0 {
				return
			}
		}
	})
	writers := s.openLanes(lanes)
	applied := s.raceTimes(writers, each, func(w, i int) []shard.Op { return []shard.Op{opOf(NewClaim(w*each+i, 1, 1))} })
	stop()
	reader.Wait()
	for w, want := range applied {
		got := read[writers[w].ID()]
		if len(got) != len(want) {
			s.Errorf("lane %d: read %d entries of %d", w, len(got), len(want))
			continue
		}
		for i := range want {
			if got[i].Seq != uint64(i+1) || !EqualEntries(got[i], want[i].Entry) {
				s.Errorf("lane %d: entry %d was read as %+v, applied as %+v", w, i+1, got[i], want[i].Entry)
			}
		}
	}
	for _, d := range s.rows().Diff(rows.Live()) {
		s.Errorf("rows and what was read: %s", d)
	}
}
