package replica

import (
	"sync"
	"time"

	"cellgate/internal/fault"
)

// CommitBound is how long a transaction may take before the replica says that its
// shard does not commit: a gateway's default budget for a claim. Who claims would
// wait in vain.
const CommitBound = 2 * time.Second

// storeWatch remembers how the store did last. Safe for concurrent use.
type storeWatch struct {
	now func() time.Time

	mu sync.Mutex
	// began is when the transaction in flight began; zero for none.
	began time.Time
	// reading is when the reading of the journal under way began; zero for none.
	reading time.Time
	// They are apart: a store whose disk hangs is still read, and one connection to a
	// database may be dead while others work.
	reads, writes, journal trouble
}

// trouble is since when something fails each time, and the last error; the zero
// value when it last worked.
type trouble struct {
	since time.Time
	err   error
}

// note takes the result of what began at a time.
func (t *trouble) note(began time.Time, err error) {
	switch {
	case err == nil:
		*t = trouble{}
	case t.err == nil:
		*t = trouble{since: began, err: err}
	default:
		t.err = err
	}
}

// noteRead takes the result of a read.
func (w *storeWatch) noteRead(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads.note(w.now(), err)
}

// beginTransaction marks that a transaction begins; the function it returns, how it ended.
func (w *storeWatch) beginTransaction() (end func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := w.now()
	w.began = began
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.began = time.Time{}
		w.writes.note(began, err)
	}
}

// beginReading marks that the journal begins to be read; the function it returns, how
// that ended.
func (w *storeWatch) beginReading() (end func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := w.now()
	w.reading = began
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.reading = time.Time{}
		w.journal.note(began, err)
	}
}

// InFlight is how long the transaction in flight has taken; 0 for none.
func (w *storeWatch) InFlight() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() {
		return 0
	}
	return w.now().Sub(w.began)
}

// uncommitted reports whether the last transaction that ended failed.
func (w *storeWatch) uncommitted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes.err != nil
}

// WhyFailing is why nothing can be claimed now, as a CELL_UNAVAILABLE fault: a
// transaction is in flight for longer than commitBound, none was committed since
// one failed, reads fail, or the journal was not read to its end for maxBehind: what
// is proposed after that would wait in vain. nil when the store works.
func (w *storeWatch) WhyFailing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	lasted := func(since time.Time) time.Duration { return now.Sub(since).Round(100 * time.Millisecond) }
	switch {
	case w.writes.err != nil:
		return fault.Wrap(fault.CellUnavailable, w.writes.err, "the cell's shard has not committed for %v", lasted(w.writes.since))
	case !w.began.IsZero() && now.Sub(w.began) >= CommitBound:
		return fault.New(fault.CellUnavailable, "the cell's shard has not committed for %v", lasted(w.began))
	case w.reads.err != nil:
		return fault.Wrap(fault.CellUnavailable, w.reads.err, "the cell's shard cannot be read for %v", lasted(w.reads.since))
	case w.journal.err != nil && now.Sub(w.journal.since) >= MaxBehind:
		return fault.Wrap(fault.CellUnavailable, w.journal.err, "the cell's journal cannot be read for %v", lasted(w.journal.since))
	case !w.reading.IsZero() && now.Sub(w.reading) >= MaxBehind:
		return fault.New(fault.CellUnavailable, "the cell's journal has not been read for %v", lasted(w.reading))
	}
	return nil
}
