package replica

import (
	"context"
	"maps"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Journal is how far this replica has read its shard's journal. The follower reads it; others request a
// reading and wait for its end.
type Journal struct {
	// hurry has one element if the journal should be read now; asked, if it should be read after a
	// pause (MostRest).
	hurry, asked chan struct{}
	// over is closed when the journal is no longer read.
	over chan struct{}

	mu sync.Mutex
	// own is this replica's lane, whose entries arrive with their transactions. ahead holds entries
	// that arrived while one before them was missing.
	own    shard.LaneID
	cursor shard.Cursor
	ahead  map[uint64]struct{}
	// atEnd is when the last reading of the journal to its end began.
	atEnd time.Time
	// reading is closed at the end of the reading under way, or of the next one. failed is why the last
	// reading did not reach the journal's end; nil if it did.
	reading chan struct{}
	failed  error
	// begun counts the readings that began. tried is the last one that ended, read the last that
	// reached the journal's end.
	begun, tried, read uint64
}

func newJournal() *Journal {
	return &Journal{
		cursor: shard.Cursor{}, hurry: make(chan struct{}, 1), asked: make(chan struct{}, 1), over: make(chan struct{}),
		ahead: map[uint64]struct{}{}, reading: make(chan struct{}),
	}
}

// LastEnd is when the last reading of the journal to its end began.
func (j *Journal) LastEnd() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.atEnd
}

// hurryUp requests a reading before the next tick.
func (j *Journal) hurryUp() {
	select {
	case j.hurry <- struct{}{}:
	default:
	}
}

// beginReading records that a reading begins.
func (j *Journal) beginReading() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun++
	return time.Now()
}

// endReading records the result of a reading that began at began, and wakes those who wait for it.
func (j *Journal) endReading(began time.Time, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tried = j.begun
	if j.failed = err; err == nil {
		j.atEnd, j.read = began, j.begun
	}
	close(j.reading)
	j.reading = make(chan struct{})
}

// open names this replica's lane, before its first entry arrives.
func (j *Journal) open(own shard.LaneID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.own = own
}

// noteOwn records an entry of this replica's lane and calls show with its changes. If the journal
// brought the entry before its transaction was answered, show gets none: other lanes may have built on
// the entry since, and that they ended a claim is forgotten after a while (Rows.forgetEnded). show is
// called before the position moves on; it must not take mu.
func (j *Journal) noteOwn(e shard.Entry, show func(changes []shard.Change)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.Seq > 0 && e.Seq <= j.cursor[j.own] {
		show(nil)
		return
	}
	show(e.Changes)
	if e.Seq > 0 {
		j.ahead[e.Seq] = struct{}{}
	}
	j.closeGap()
}

// closeGap moves the own lane's position over the entries that arrived with their transactions.
func (j *Journal) closeGap() {
	for seq := range j.ahead {
		if seq <= j.cursor[j.own] {
			delete(j.ahead, seq)
		}
	}
	for {
		next := j.cursor[j.own] + 1
		if _, ok := j.ahead[next]; !ok {
			return
		}
		delete(j.ahead, next)
		j.cursor[j.own] = next
	}
}

// moveTo sets the position after a reading or a load. Lanes that it does not name are dropped. Entries
// of the own lane may have arrived meanwhile.
func (j *Journal) moveTo(to shard.Cursor) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.cursor, func(lane shard.LaneID, _ uint64) bool {
		_, named := to[lane]
		return !named && lane != j.own
	})
	for lane, seq := range to {
		j.cursor[lane] = max(j.cursor[lane], seq)
	}
	j.closeGap()
}

// Position is how far the journal was read, by lane.
func (j *Journal) Position() shard.Cursor {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.cursor)
}

// HasOthers reports whether an entry of another replica was read: the latest entries of such a replica
// may not be in the table yet.
func (j *Journal) HasOthers() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for lane := range j.cursor {
		if lane.Replica != j.own.Replica {
			return true
		}
	}
	return false
}

// AwaitFresh waits until the table is at most MaxBehind behind other lanes. Otherwise a replica that
// its machine or its store stopped for a while would answer from an old table, and report a cell as
// full that is not. It fails if the journal cannot be read.
func (j *Journal) AwaitFresh(ctx context.Context) error {
	for asked := false; ; asked = true {
		j.mu.Lock()
		behind, reading, failed := time.Since(j.atEnd), j.reading, j.failed
		j.mu.Unlock()
		switch {
		case behind <= MaxBehind:
			return nil
		case asked && failed != nil:
			return fault.Wrap(fault.CellUnavailable, failed, "the replica is %v behind its shard, whose journal cannot be read", behind.Round(time.Millisecond))
		}
		j.hurryUp()
		select {
		case <-reading:
		case <-j.over:
			return ErrStopping()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CatchUp waits until the table has every entry that any replica acknowledged before the call. Callers
// share readings: a reading under way may have missed the last entries, so a call waits for the next
// one. It fails if the journal cannot be read.
func (j *Journal) CatchUp(ctx context.Context) error {
	j.mu.Lock()
	want := j.begun + 1
	j.mu.Unlock()
	for {
		j.mu.Lock()
		read, tried, reading, failed := j.read, j.tried, j.reading, j.failed
		j.mu.Unlock()
		switch {
		case read >= want:
			return nil
		case tried >= want:
			return failed
		}
		select {
		case j.asked <- struct{}{}:
		default:
		}
		select {
		case <-reading:
		case <-j.over:
			return ErrStopping()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
