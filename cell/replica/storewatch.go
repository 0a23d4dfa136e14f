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
	// They are separate: a store whose disk hangs can still be read, and one connection to a database
	// may be dead while others work. journal are the readings of the journal.
	reads, writes, journal operation
}

// operation is a kind of access to the store.
type operation struct {
	// began is when the one under way began; zero for none.
	began time.Time
	// since is when the first of those began that have failed without a break, and err the last error;
	// zero if the last one succeeded.
	since time.Time
	err   error
}

// begin records the start of an operation, and end its result.
func (w *storeWatch) begin(o *operation) (end func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	began := w.now()
	o.began = began
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err == nil:
			*o = operation{}
		case o.err == nil:
			*o = operation{since: began, err: err}
		default:
			o.began, o.err = time.Time{}, err
		}
	}
}

// InFlight is how long the transaction in flight has taken; 0 for none.
func (w *storeWatch) InFlight() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes.began.IsZero() {
		return 0
	}
	return w.now().Sub(w.writes.began)
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
	case !w.writes.began.IsZero() && now.Sub(w.writes.began) >= CommitBound:
		return fault.New(fault.CellUnavailable, "the cell's shard has not committed for %v", lasted(w.writes.began))
	case w.reads.err != nil:
		return fault.Wrap(fault.CellUnavailable, w.reads.err, "the cell's shard cannot be read for %v", lasted(w.reads.since))
	case w.journal.err != nil && now.Sub(w.journal.since) >= MaxBehind:
		return fault.Wrap(fault.CellUnavailable, w.journal.err, "the cell's journal cannot be read for %v", lasted(w.journal.since))
	case !w.journal.began.IsZero() && now.Sub(w.journal.began) >= MaxBehind:
		return fault.New(fault.CellUnavailable, "the cell's journal has not been read for %v", lasted(w.journal.began))
	}
	return nil
}
