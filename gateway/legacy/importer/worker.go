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
	to Cell
	// onStep is called after every step, with the error of the step or of the search after it.
	onStep func(Report, error)

	latest  atomic.Pointer[offer]
	offered chan struct{}
	// begun signals that whole was set after it was zero.
	begun chan struct{}
	// searchFrom is the earliest time of the next search for instances without a claim. Only Run uses it.
	searchFrom time.Time

	mu      sync.Mutex
	stopped bool
	// unclaimed is the result of the last search; nil without one.
	unclaimed *cellv1.UnclaimedInstances
	// whole is when the newest fully imported snapshot was offered; zero for none.
	whole time.Time
}

// offer has the arguments and the time of the last Offer; x is nil while another gateway imports.
type offer struct {
	x      *novadb.Snapshot
	native bool
	at     time.Time
}

// betweenSteps is how long a Worker waits before the next step of one snapshot.
const betweenSteps = 250 * time.Millisecond

// NewWorker makes a Worker that calls onStep after every step; onStep may be nil.
func NewWorker(im *Importer, to Cell, onStep func(Report, error)) *Worker {
	if onStep == nil {
		onStep = func(Report, error) {}
	}
	return &Worker{im: im, to: to, onStep: onStep, offered: make(chan struct{}, 1), begun: make(chan struct{}, 1)}
}

// Offer sets the snapshot to import; an earlier one that still waits is dropped. Nil means that another gateway
// imports: nothing is sent until the next snapshot, which is imported as if the cell's content were unknown. native:
// agents report their hosts. It never blocks.
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

// Run imports the last offered snapshot, until ctx ends. After a failed step it waits for the
// next offer.
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
			if err == nil && r.Behind == 0 && r.Waiting <= r.Held+r.Repeated && r.Missing == 0 {
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

// maxNamed bounds the instances without a claim that are named.
const maxNamed = 16

// findUnclaimed searches for instances without a claim if a search is due. If it fails, the
// previous result is dropped, since it is out of date.
func (w *Worker) findUnclaimed(ctx context.Context, x *novadb.Snapshot, r *Report) error {
	if w.im.conf.Now().Before(w.searchFrom) {
		w.report(w.Unclaimed(), r)
		return nil
	}
	found, err := w.im.FindUnclaimed(ctx, x, w.to)
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
		return fault.Wrap(fault.KindOf(err), err, "the search for instances without a claim failed")
	}
	w.report(unclaimed, r)
	return nil
}

// imported records that a snapshot is fully imported, unless another gateway imports by now.
func (w *Worker) imported(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if w.whole.IsZero() {
		select {
		case w.begun <- struct{}{}:
		default: // a signal is already pending
		}
	}
	w.whole = at
}

// Imported signals that a snapshot is fully imported, after none was.
func (w *Worker) Imported() <-chan struct{} { return w.begun }

// Age gives how long ago the newest fully imported snapshot was offered; false for none.
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

// Unclaimed gives the result of the last search for instances without a claim, for a report
// to the cell. It is nil while another gateway imports, and after a failed search. Callers
// must not change it.
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
