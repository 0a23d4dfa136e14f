package replica

import (
	"context"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

const (
	// tailLimit is how many journal entries are read at once.
	tailLimit = 1024
	// MaxBehind is how far the table may be behind other lanes when a proposal is made from it. It is
	// many times Config.TailEvery: a replica is only so far behind if it or its store stood still.
	MaxBehind = 2 * time.Second
	// MostRest bounds the pause before a reading that CatchUp asks for. The pause is as long as the
	// reading before took, so that such readings load a database at most half of the time, however many
	// callers there are.
	MostRest = 10 * time.Millisecond
)

// follower brings the journal's entries into the table. It reads the entries of other lanes, and those
// of its own lane if the outcome of a transaction was unknown.
type follower struct {
	*State
	from     shard.Synchronizer
	listener changeListener
	// gateKnown is closed once the rows have the gate, or it is known that there is none.
	gateKnown chan struct{}
	gateOnce  sync.Once
}

// run reads the journal until ctx ends. After a failure it tries again at the next tick. It logs a
// failure once, and also a reading that takes longer than MaxBehind. It returns an error that ends the
// replica.
func (f *follower) run(ctx context.Context) error {
	defer close(f.Journal.over)
	tick := time.NewTicker(f.cfg.TailEvery)
	defer tick.Stop()
	failing := false
	var over time.Time
	var took time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-f.Journal.hurry:
		case <-f.Journal.asked:
			f.restBetween(ctx, min(took, MostRest)-time.Since(over))
		}
		began := f.Journal.beginReading()
		noteStored := f.Stored.begin(&f.Stored.journal)
		late := time.AfterFunc(MaxBehind, func() { f.cfg.Log.Warn("the journal is not read: the store does not answer", "for", MaxBehind) })
		err := f.readToEnd(ctx)
		if fault.KindOf(err) == fault.Gone && !isFatal(err) {
			f.cfg.Log.Warn("the journal was trimmed before it was read; loading the shard again")
			err = f.reload(ctx)
		}
		wasLate := !late.Stop()
		if ctx.Err() != nil {
			return nil
		}
		noteStored(err)
		over = time.Now()
		took = over.Sub(began)
		f.Journal.endReading(began, err)
		if err != nil && !failing {
			f.cfg.Log.Warn("the journal could not be read", "err", err)
		}
		if err == nil && (failing || wasLate) {
			f.cfg.Log.Info("the journal is read again")
		}
		failing = err != nil
		if isFatal(err) {
			return err
		}
	}
}

// restBetween pauses between two readings, unless a reading is urgent.
func (f *follower) restBetween(ctx context.Context, long time.Duration) {
	if long <= 0 {
		return
	}
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.Journal.hurry:
	case <-ctx.Done():
	}
}

// readToEnd brings in everything up to the journal's end.
func (f *follower) readToEnd(ctx context.Context) error {
	for {
		entries, to, err := f.from.Tail(ctx, f.Journal.Position(), tailLimit)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			var changes []shard.Change
			for _, e := range entries {
				changes = append(changes, e.Changes...)
			}
			f.Writer.publish(tableUpdate{changes: changes, afterPublish: func() { f.listener.Learned(changes) }})
		}
		f.Journal.moveTo(to)
		if len(entries) < tailLimit {
			shown := make(chan struct{})
			f.Writer.publish(tableUpdate{afterPublish: func() { f.Rows.forgetEnded(); close(shown) }})
			<-shown
			return nil
		}
	}
}
