package replica

import (
	"sync"
	"time"

	"cellgate/internal/fault"
)

// CommitBound is how long a transaction may take before the replica reports that its shard does not
// commit. It is a gateway's default budget for a claim: callers would wait in vain after that.
const CommitBound = 2 * time.Second

// storeWatch remembers the latest results of the store. Safe for concurrent use.
type storeWatch struct {
	now func() time.Time

	mu sync.Mutex
	// began is when the transaction in flight began; zero for none.
	began time.Time
	// reading is when the reading of the journal under way began; zero for none.
	reading time.Time
	// They are separate: a store whose disk hangs can still be read, and one connection to a database
	// may be dead while others work.
	reads, writes, journal trouble
}

// trouble is since when an operation has failed each time, and the last error; zero if the last one
// succeeded.
type trouble struct {
	since time.Time
	err   error
}

// note records the result of an operation that began at began.
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

// noteRead records the result of a read.
func (w *storeWatch) noteRead(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads.note(w.now(), err)
}

// beginTransaction records the start of a transaction, and end its result.
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

// beginReading records the start of a reading of the journal, and end its result.
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

// WhyFailing is why nothing can be claimed now, as a CELL_UNAVAILABLE fault; nil if the store works.
// The reasons: a transaction has been in flight for CommitBound, the last one failed, reads fail, or
// the journal was not read to its end for MaxBehind. Claims of proposed hosts would then wait in vain.
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
