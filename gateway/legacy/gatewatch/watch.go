package gatewatch

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// fullEvery is about how often every row is read, since a refresh cannot see all changes.
	fullEvery = 10 * time.Minute
	// maxReadPause bounds the pause after failed reads.
	maxReadPause = 5 * time.Second
	// firstWithin is how long a gateway that starts waits for a cell's first rows.
	firstWithin = 5 * time.Second
	// hurriedReads is how many reads follow a notification: an instance counts from the second read that has it.
	hurriedReads = 2
	// leastRest is the shortest pause before a hurried read. The pause is at least five times
	// the duration of the last read, so that casts of many computes load the database for at
	// most a sixth of the time.
	leastRest = 50 * time.Millisecond
)

// watcher is the state that the watch of a gate keeps from round to round.
type watcher struct {
	*Gate
	reader Reader
	// reads receives the outcome of the read under way; reading: there is one.
	reads   chan read
	reading bool
	// readFrom is the earliest time of the next read, fullFrom that of the next read of every row.
	readFrom, fullFrom time.Time
	failures           int
	// hurried is how many reads still follow without the usual pause, after a notification of
	// Nova; readFor is how long the last one took.
	hurried int
	readFor time.Duration
	// silent: the cell did not answer the last call.
	silent      bool
	importUntil time.Time
}

// read is the outcome of one read of the databases.
type read struct {
	rows   *novadb.Snapshot
	reader Reader
	err    error
	began  time.Time
}

// Run asks the cell for its gate and reads its legacy database, every Refresh. It asks the
// cell before it reads the rows, so that a claim which the cell no longer awaits is in the
// rows. Reads run in the background, one at a time: a database that hangs delays neither the
// gate nor anything else.
func (w *Gate) Run(ctx context.Context) {
	k := &watcher{Gate: w, reads: make(chan read, 1)}
	var parts sync.WaitGroup
	if w.importer != nil {
		parts.Go(func() {
			if err := w.importer.Run(ctx); err != nil && ctx.Err() == nil {
				w.log.ErrorContext(ctx, "the importer of a cell's legacy hosts ended", "cell", w.cell.Name(), "error", err)
			}
		})
	}
	var imported <-chan struct{}
	if w.importer != nil {
		imported = w.importer.Imported()
	}
	late := time.AfterFunc(firstWithin, sync.OnceFunc(w.isFirst))
	defer func() {
		late.Stop()
		if k.reading {
			k.finishRead(ctx, <-k.reads)
		}
		if k.reader != nil {
			// The reader only reads, so an error of Close does not matter.
			_ = k.reader.Close()
		}
		parts.Wait()
		w.isFirst()
	}()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
			k.round(ctx)
		case <-imported:
			k.sendReport(ctx, false)
			continue
		case <-w.hurry:
			// Only the first notification sets the timer: frequent ones must not postpone the read.
			if k.hurried == 0 && !k.reading {
				due.Reset(k.rest())
			}
			k.hurried = hurriedReads
			continue
		case got := <-k.reads:
			k.reading = false
			k.readFor = k.now().Sub(got.began)
			if k.finishRead(ctx, got) {
				k.sendReport(ctx, false)
				due.Reset(k.pause()) // the answer may give leave to import
			}
			w.isFirst()
			if k.hurried > 0 {
				due.Reset(k.rest())
			}
			continue
		}
		due.Reset(k.pause())
	}
}

// pause gives the time to the next round. While this gateway imports, its leave to import must not end before: another
// gateway would import then, and begin with all rows.
func (k *watcher) pause() time.Duration {
	pause := jittered(k.cfg.Refresh)
	if left := k.importUntil.Sub(k.now()); left > 0 && !k.silent {
		pause = min(pause, left*4/5)
	}
	return pause
}

// isFirst closes first.
func (w *Gate) isFirst() { w.once.Do(func() { close(w.first) }) }

// rest gives the pause before a hurried read; it is longer after failed reads.
func (k *watcher) rest() time.Duration {
	return max(leastRest, 5*k.readFor, k.readFrom.Sub(k.now()))
}

// jittered gives a duration within a tenth of d.
func jittered(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

// round asks the cell, then starts to read the rows. Rows from before a pause of this process
// are not reported: the next report follows the next read.
func (k *watcher) round(ctx context.Context) {
	began := k.now()
	reads := !k.reading && !began.Before(k.readFrom)
	k.sendReport(ctx, reads && k.tooOld())
	if !reads || ctx.Err() != nil {
		return
	}
	k.reading, k.hurried = true, max(k.hurried-1, 0)
	got := read{reader: k.reader, began: k.now()}
	full := !k.now().Before(k.fullFrom)
	go func() {
		got.read(ctx, k.Gate, full)
		k.reads <- got
	}()
}

// sendReport reports to the cell, or only asks for its gate if look is set, and handles the answer.
func (k *watcher) sendReport(ctx context.Context, look bool) {
	if k.enter(ctx) != nil {
		return
	}
	defer k.leave()
	if k.cfg.Only {
		k.holdAtLegacy(ctx)
	}
	resp, err := k.ask(ctx, look)
	if err != nil {
		if !k.silent && ctx.Err() == nil {
			k.log.WarnContext(ctx, "the report to a cell failed, so the state of its gate is not known", "cell", k.cell.Name(), "error", err)
		}
		k.silent = true
		return
	}
	if k.silent {
		k.log.InfoContext(ctx, "a cell answers reports again: the state of its gate is known", "cell", k.cell.Name())
	}
	k.silent = false
	imports := k.now().Before(k.importUntil)
	k.importUntil = time.Time{}
	if d := resp.GetImportFor().AsDuration(); d > 0 && k.importer != nil {
		k.importUntil = k.now().Add(d)
		if rows := k.rows.Load(); !imports && k.answerable() {
			k.importer.Offer(rows.Snapshot, k.native())
		}
	} else if k.importer != nil {
		k.importer.Offer(nil, false)
	}
}

// holdAtLegacy pins the gate of a cell that has no other scheduler.
func (k *watcher) holdAtLegacy(ctx context.Context) {
	if known := k.known.Load(); known != nil && known.GetPin() == cellgatev1.Gate_LEGACY {
		return
	}
	// Force is needed: the cell does not know yet that its tables are being read.
	_, err := k.pinLocked(ctx, &cellgatev1.UpdateCellRequest{
		GatePin: cellgatev1.Gate_LEGACY, Reason: "legacy_only: the cell has no scheduler of its own", Force: true,
	}, "gateway")
	if err != nil && !k.silent {
		k.log.WarnContext(ctx, "the gate of a cell without a scheduler could not be pinned to LEGACY; it is tried again with the next report", "cell", k.cell.Name(), "error", err)
	}
}

// read reads the rows: all of them if full is set, else the changed ones. It first opens a
// reader if there is none.
func (r *read) read(ctx context.Context, w *Gate, full bool) {
	if r.reader == nil {
		if r.reader, r.err = w.parts.Open(ctx); r.err != nil {
			r.reader = nil
			return
		}
	}
	since := w.rows.Load()
	if since == nil || full {
		r.rows, r.err = r.reader.Load(ctx)
		return
	}
	r.rows, r.err = r.reader.Refresh(ctx, since.Snapshot)
}

// finishRead handles the outcome of a read. It reports whether a report is due at once.
func (k *watcher) finishRead(ctx context.Context, got read) (reportDue bool) {
	k.reader = got.reader
	if ctx.Err() != nil {
		return false
	}
	now := k.now()
	k.tel.Read(now.Sub(got.began), got.err)
	if k.enter(ctx) != nil {
		return false
	}
	defer k.leave()
	if got.err != nil {
		k.failures++
		pause := min(maxReadPause, k.cfg.Refresh<<min(k.failures-1, 10))
		k.readFrom = now.Add(jittered(pause))
		why := unreadBecause(got.err)
		k.unread.Store(&why)
		if k.failures == 1 {
			k.log.WarnContext(ctx, "the legacy database of a cell cannot be read", "cell", k.cell.Name(), "trouble", string(novadb.TroubleOf(got.err)), "error", got.err)
		}
		return k.report.noteUnread(why)
	}
	if k.failures > 0 {
		k.log.InfoContext(ctx, "the legacy database of a cell is read again", "cell", k.cell.Name(), "failures", k.failures)
	}
	k.failures, k.readFrom = 0, time.Time{}
	if got.rows.Full {
		k.fullFrom = now.Add(jittered(fullEvery))
	}
	server := got.rows.At.Add(now.Sub(got.began))
	k.logSilence(ctx, got.rows)
	k.rows.Store(&knownRows{Snapshot: got.rows, at: got.began})
	k.unread.Store(nil)
	reportDue = k.report.update(got.rows, server, k.cfg.ServiceDownTime)
	switch {
	case k.importer == nil:
	case k.noBeats() != "":
		k.importer.Offer(nil, false)
	case now.Before(k.importUntil):
		k.importer.Offer(got.rows, k.native())
	}
	return reportDue
}

// logSilence logs when services fall silent in the rows, and when their heartbeats resume.
func (k *watcher) logSilence(ctx context.Context, x *novadb.Snapshot) {
	before, now := k.noBeats() != "", x.WhySilent(k.cfg.ServiceDownTime)
	switch {
	case now != "" && !before:
		k.log.WarnContext(ctx, "no service of a cell's legacy database has a new heartbeat. This gateway imports nothing from it, and the cell has no answer while its gate is LEGACY or SHADOW",
			"cell", k.cell.Name(), "why", now, "newest_heartbeat", x.Heartbeat, "server_time", x.At)
	case before && now == "":
		k.log.InfoContext(ctx, "services of a cell's legacy database have heartbeats again", "cell", k.cell.Name())
	}
}

// native reports whether the gate was NATIVE in the cell's last answer.
func (w *Gate) native() bool {
	known := w.known.Load()
	return known != nil && known.GetState() == cellgatev1.Gate_NATIVE
}

// unreadBecause gives the reason why rows could not be read, with its trouble.
func unreadBecause(err error) string {
	var e *fault.Error
	if !errors.As(err, &e) {
		return "the legacy database failed"
	}
	if t := novadb.TroubleOf(err); t != "" {
		return e.Message + " (" + string(t) + ")"
	}
	return e.Message
}
