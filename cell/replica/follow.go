package replica

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
	// MaxBehind is how old the table may be, as to other lanes, to propose from.
	// It is many times Config.TailEvery: only a replica that stood still, or whose
	// store does, is so far behind.
	MaxBehind = 2 * time.Second
	// MostRest bounds how long a reading that upToNow asks for waits after the one before: as
	// long as that took, so that such readings have a database's work half of the time at
	// most, however many ask.
	MostRest = 10 * time.Millisecond
)

// follower brings the journal's entries into the table: other lanes' by reading
// it, its own lane's when a transaction's fate was not known.
type follower struct {
	*Journal
	from     shard.Synchronizer
	claims   shard.Reader
	every    time.Duration
	rows     *Rows
	writer   *Writer
	listener changeListener
	// stored notes how each reading went.
	stored *storeWatch
	log    *slog.Logger
	// gateKnown is closed once the rows have the gate, or there is none.
	gateKnown chan struct{}
	gateOnce  sync.Once
}

func newFollower(j *Journal, from shard.Synchronizer, claims shard.Reader, every time.Duration, r *Rows, w *Writer, l changeListener, stored *storeWatch, log *slog.Logger) *follower {
	return &follower{
		Journal: j, from: from, claims: claims, every: every, rows: r, writer: w, listener: l, stored: stored, log: log,
		gateKnown: make(chan struct{}),
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
			f.restBetween(ctx, min(took, MostRest)-time.Since(over))
		}
		began := f.beginReading()
		noteStored := f.stored.beginReading()
		late := time.AfterFunc(MaxBehind, func() { f.log.Warn("the journal is not read: the store does not answer", "for", MaxBehind) })
		err := f.readToEnd(ctx)
		if fault.KindOf(err) == fault.Gone {
			f.log.Warn("the journal was trimmed before it was read; loading the shard again")
			err = f.reload(ctx)
		}
		wasLate := !late.Stop()
		if ctx.Err() != nil {
			return nil
		}
		noteStored(err)
		over = time.Now()
		took = over.Sub(began)
		f.endReading(began, err)
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

// restBetween waits between two readings, but not when one is in a hurry.
func (f *follower) restBetween(ctx context.Context, long time.Duration) {
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

// readToEnd brings in everything up to the journal's end.
func (f *follower) readToEnd(ctx context.Context) error {
	for {
		entries, to, err := f.from.Tail(ctx, f.Position(), tailLimit)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			var changes []shard.Change
			for _, e := range entries {
				changes = append(changes, e.Changes...)
			}
			f.writer.publish(tableUpdate{changes: changes, afterPublish: func() { f.listener.Learned(changes) }})
		}
		f.moveTo(to)
		if len(entries) < tailLimit {
			shown := make(chan struct{})
			f.writer.publish(tableUpdate{afterPublish: func() { f.rows.forgetEnded(); close(shown) }})
			<-shown
			return nil
		}
	}
}
