package replica

import (
	"context"
	"maps"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Journal is how far this replica has read its shard's journal. The follower reads it; others
// ask for a reading and wait for its end.
type Journal struct {
	// hurry has one element when the journal should be read now, asked when it should be
	// after a rest; see mostRest.
	hurry, asked chan struct{}
	// over is closed when nobody reads any more.
	over chan struct{}

	mu sync.Mutex
	// own is this replica's lane. Its entries come with their transactions;
	// ahead holds those that came while one before them is missing.
	own    shard.LaneID
	cursor shard.Cursor
	ahead  map[uint64]struct{}
	// atEnd is when the last reading of the journal to its end began.
	atEnd time.Time
	// reading ends with the reading under way, or the next one; failed is why the
	// last one did not come to the journal's end, nil when it did.
	reading chan struct{}
	failed  error
	// begun counts the readings that began. tried is the last one that is over, read the
	// last that came to the journal's end.
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

// hurryUp asks for a reading without waiting for the next tick.
func (j *Journal) hurryUp() {
	select {
	case j.hurry <- struct{}{}:
	default:
	}
}

// beginReading notes that a reading begins.
func (j *Journal) beginReading() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.begun++
	return time.Now()
}

// endReading notes how a reading that began at a time went, for those who wait for it.
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

// open names the lane whose entries come by themselves, before the first does.
func (j *Journal) open(own shard.LaneID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.own = own
}

// noteOwn notes an entry of the own lane and has its changes shown, none when
// the journal brought it before its transaction was answered: other lanes may have gone on
// from it since, and that they ended a claim is forgotten after a while (rows.caughtUp). show is called before the position moves on from here; it must not
// take mu.
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

// closeGap moves the own lane's position over what came by itself.
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

// moveTo takes the position after a reading, or of what was loaded: lanes that it does
// not name are dropped. Entries of the own lane may have come meanwhile.
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

// HasOthers reports whether an entry of another replica was read: what that one wrote last
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

// AwaitFresh waits until the table is not older than maxBehind, as to other lanes. A
// replica that stood still, stopped by its machine or its store, would answer from
// what was then, and say that a cell is full which is not. It fails when the journal
// cannot be read.
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
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// CatchUp waits until the table has every entry that any replica acknowledged before the call.
// Callers share readings of the journal: a call during a reading, which may have missed the
// last entries, waits for the next. It fails when the journal cannot be read.
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
