package cell

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

const (
	// tailLimit is how many journal entries are read at once.
	tailLimit = 1024
	// maxBehind is how old the table may be, as to other lanes, to propose from.
	// It is many times Config.TailEvery: only a replica that stood still, or whose
	// store does, is so far behind.
	maxBehind = 2 * time.Second
	// mostRest bounds how long a reading that upToNow asks for waits after the one before: as
	// long as that took, so that such readings have a database's work half of the time at
	// most, however many ask.
	mostRest = 10 * time.Millisecond
)

// follower brings the journal's entries into the table: other lanes' by reading
// it, its own lane's when a transaction's fate was not known.
type follower struct {
	from   shard.Synchronizer
	claims shard.Reader
	every  time.Duration
	rows   *rows
	show   func(feed)
	log    *slog.Logger
	// gateKnown is closed once the rows have the gate, or there is none.
	gateKnown chan struct{}
	gateOnce  sync.Once
	// learned hears of what was read, once the table shows it. It must not block.
	learned func(changes []shard.Change)
	// hurry has one element when the journal should be read now, asked when it should be
	// after a rest; see mostRest.
	hurry, asked chan struct{}
	// over is closed when run ends.
	over chan struct{}
	// stored hears how each reading went.
	stored *storeWatch

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

func newFollower(from shard.Synchronizer, claims shard.Reader, every time.Duration, r *rows, show func(feed), log *slog.Logger) *follower {
	return &follower{
		from: from, claims: claims, every: every, rows: r, show: show, log: log, cursor: shard.Cursor{},
		hurry: make(chan struct{}, 1), asked: make(chan struct{}, 1), over: make(chan struct{}),
		ahead: map[uint64]struct{}{}, reading: make(chan struct{}), gateKnown: make(chan struct{}),
	}
}

func (f *follower) lastEnd() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.atEnd
}

// now asks for a reading without waiting for the next tick.
func (f *follower) now() {
	select {
	case f.hurry <- struct{}{}:
	default:
	}
}

// run reads until ctx ends. A store that fails is tried again at the next tick;
// the failure is logged once, and so is a reading that does not come back. That the
// replica's lane was fenced ends it.
func (f *follower) run(ctx context.Context) error {
	defer close(f.over)
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	failing := false
	var over time.Time
	var took time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-f.hurry:
		case <-f.asked:
			f.rest(ctx, min(took, mostRest)-time.Since(over))
		}
		began := f.begins()
		stored := f.stored.beginReading()
		late := time.AfterFunc(maxBehind, func() { f.log.Warn("the journal is not read: the store does not answer", "for", maxBehind) })
		err := f.readOn(ctx)
		if fault.KindOf(err) == fault.Gone {
			f.log.Warn("the journal was trimmed before it was read; loading the shard again")
			err = f.reload(ctx)
		}
		wasLate := !late.Stop()
		if ctx.Err() != nil {
			return nil
		}
		stored(err)
		over = time.Now()
		took = over.Sub(began)
		f.ended(began, err)
		if err != nil && !failing {
			f.log.Warn("the journal could not be read", "err", err)
		}
		if err == nil && (failing || wasLate) {
			f.log.Info("the journal is read again")
		}
		failing = err != nil
		if errors.Is(err, shard.ErrFenced) {
			return err
		}
	}
}

// begins notes that a reading begins.
func (f *follower) begins() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun++
	return time.Now()
}

// rest waits between two readings, but not when one is in a hurry.
func (f *follower) rest(ctx context.Context, long time.Duration) {
	if long <= 0 {
		return
	}
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.hurry:
	case <-ctx.Done():
	}
}

// readOn brings in everything up to the journal's end.
func (f *follower) readOn(ctx context.Context) error {
	for {
		entries, to, err := f.from.Tail(ctx, f.position(), tailLimit)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			var changes []shard.Change
			for _, e := range entries {
				changes = append(changes, e.Changes...)
			}
			f.show(feed{changes: changes, shown: func() { f.learned(changes) }})
		}
		f.moved(to)
		if len(entries) < tailLimit {
			shown := make(chan struct{})
			f.show(feed{shown: func() { f.rows.caughtUp(); close(shown) }})
			<-shown
			return nil
		}
	}
}

// ended notes how a reading that began at a time went, for those who wait for it.
func (f *follower) ended(began time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = f.begun
	if f.failed = err; err == nil {
		f.atEnd, f.read = began, f.begun
	}
	close(f.reading)
	f.reading = make(chan struct{})
}
