package importer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy/novadb"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Worker makes the steps of an Importer whenever it is offered a snapshot.
type Worker struct {
	im *Importer
	to Caller
	// onStep is called after every step, with the error of the step or of the search after it.
	onStep func(Report, error)

	latest  atomic.Pointer[offer]
	offered chan struct{}
	// begun has an element when whole is set that was not.
	begun chan struct{}
	// searchFrom is when to search for instances without a claim next; it is Run's.
	searchFrom time.Time

	mu      sync.Mutex
	stopped bool
	// unclaimed is what the last search found, nil without one.
	unclaimed *cellv1.UnclaimedInstances
	// whole is when the newest snapshot was offered that is imported as a whole; zero for none.
	whole time.Time
}

// offer is what Offer was given last, and when; x is nil while another gateway imports.
type offer struct {
	x      *novadb.Snapshot
	native bool
	at     time.Time
}

// betweenSteps is how long a Worker waits before the next step of one snapshot.
const betweenSteps = 250 * time.Millisecond

// NewWorker makes a Worker that calls onStep after every step; onStep may be nil.
func NewWorker(im *Importer, to Caller, onStep func(Report, error)) *Worker {
	if onStep == nil {
		onStep = func(Report, error) {}
	}
	return &Worker{im: im, to: to, onStep: onStep, offered: make(chan struct{}, 1), begun: make(chan struct{}, 1)}
}

// Offer gives the snapshot to import; an earlier one that waits still is dropped. Nil:
// another gateway imports, and nothing is sent until the next one, which is imported
// as if nothing were known of what the cell has. native: agents speak for their hosts. It never blocks.
func (w *Worker) Offer(x *novadb.Snapshot, native bool) {
	w.mu.Lock()
	if x == nil {
		w.unclaimed, w.whole = nil, time.Time{}
	} else if w.stopped {
		w.im.Again()
	}
	w.stopped = x == nil
	w.mu.Unlock()
	w.latest.Store(&offer{x, native, w.im.conf.Now()})
	select {
	case w.offered <- struct{}{}:
	default:
	}
}

// Run imports what was offered last, until ctx ends. After a step that failed it waits
// for the next offer.
func (w *Worker) Run(ctx context.Context) error {
	native := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.offered:
		}
		for {
			o := w.latest.Load()
			if o.x == nil {
				break
			}
			x := o.x
			if native && !o.native {
				w.im.takeBack()
			}
			native = o.native
			r, err := w.im.Step(ctx, x, w.to)
			if err == nil && r.Behind == 0 && r.Waiting <= r.Held && r.Missing == 0 {
				w.imported(o.at)
			}
			stepErr := err
			if err == nil {
				stepErr = w.findUnclaimed(ctx, x, &r)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.onStep(r, stepErr)
			if err != nil || r.Waiting <= r.Held {
				break
			}
			if err := wait(ctx, betweenSteps); err != nil {
				return err
			}
		}
	}
}

// maxNamed is how many instances without a claim are named.
const maxNamed = 16

// findUnclaimed searches for instances without a claim when that is due. If it fails, the result
// of the search before is dropped: it is out of date.
func (w *Worker) findUnclaimed(ctx context.Context, x *novadb.Snapshot, r *Report) error {
	finder, ok := w.to.(Finder)
	now := w.im.conf.Now()
	if !ok || now.Before(w.searchFrom) {
		w.report(w.Unclaimed(), r)
		return nil
	}
	found, err := w.im.FindUnclaimed(ctx, x, finder)
	var unclaimed *cellv1.UnclaimedInstances
	if err == nil {
		w.searchFrom = w.im.conf.Now().Add(searchInterval(r.Instances))
		unclaimed = found.message()
	}
	w.mu.Lock()
	if w.unclaimed = unclaimed; w.stopped {
		w.unclaimed = nil
	}
	w.mu.Unlock()
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "which instances have no claim cannot be looked for")
	}
	w.report(unclaimed, r)
	return nil
}

// imported notes that a snapshot is in the shard as a whole, unless another gateway imports by now.
func (w *Worker) imported(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if w.whole.IsZero() {
		select {
		case w.begun <- struct{}{}:
		default: // it is not taken yet
		}
	}
	w.whole = at
}

// Imported has an element once a snapshot is in the shard as a whole, after none was.
func (w *Worker) Imported() <-chan struct{} { return w.begun }

// Age is how long ago the newest snapshot was offered that is in the shard as a whole; false for none.
func (w *Worker) Age() (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.im.conf.Now().Sub(w.whole), !w.whole.IsZero()
}

func (w *Worker) report(u *cellv1.UnclaimedInstances, r *Report) {
	r.Unclaimed = int(u.GetCount())
	for _, i := range u.GetFirst() {
		r.FirstUnclaimed = append(r.FirstUnclaimed, i.GetUuid()+" on "+i.GetHost())
	}
}

// Unclaimed gives the instances without a claim that were found last, for a report to the
// cell; nil while another gateway imports, and after a search that failed. Callers must not
// change it.
func (w *Worker) Unclaimed() *cellv1.UnclaimedInstances {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unclaimed
}

func (u *Unclaimed) message() *cellv1.UnclaimedInstances {
	out := &cellv1.UnclaimedInstances{SettledAt: timestamppb.New(u.Settled), Count: int32(u.Lasting)}
	for _, i := range u.Found {
		if i.Lasting && len(out.First) < maxNamed {
			out.First = append(out.First, &cellv1.UnclaimedInstance{Uuid: i.UUID, Host: i.Host})
		}
	}
	return out
}
