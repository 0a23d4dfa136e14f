package importer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Worker makes the steps of an Importer whenever it is offered a snapshot.
type Worker struct {
	im *Importer
	to Caller
	// told hears of every step, and of a look after it that failed.
	told func(Report, error)

	latest  atomic.Pointer[offer]
	offered chan struct{}
	// lookFrom is when to look for instances without a claim next; it is Run's.
	lookFrom time.Time

	mu      sync.Mutex
	stopped bool
	// unclaimed is what the last look found, nil without one.
	unclaimed *cellv1.UnclaimedInstances
}

// offer is what Offer was given last; x is nil while another gateway imports.
type offer struct {
	x             *legacy.Snapshot
	instancesOnly bool
}

// betweenSteps is how long a Worker waits before the next step of one snapshot.
const betweenSteps = 250 * time.Millisecond

// NewWorker makes a Worker; told may be nil.
func NewWorker(im *Importer, to Caller, told func(Report, error)) *Worker {
	if told == nil {
		told = func(Report, error) {}
	}
	return &Worker{im: im, to: to, told: told, offered: make(chan struct{}, 1)}
}

// Offer gives the snapshot to import; one that was not looked at yet is dropped. Nil:
// another gateway imports, and nothing is sent until the next one, which is imported
// as if nothing were known of what the cell has. With instancesOnly steps are
// StepInstances. It never blocks.
func (w *Worker) Offer(x *legacy.Snapshot, instancesOnly bool) {
	w.mu.Lock()
	if x == nil {
		w.unclaimed = nil
	} else if w.stopped {
		w.im.Again()
	}
	w.stopped = x == nil
	w.mu.Unlock()
	w.latest.Store(&offer{x, instancesOnly})
	select {
	case w.offered <- struct{}{}:
	default:
	}
}

// ImportHost is Ensure.
func (w *Worker) ImportHost(ctx context.Context, x *legacy.Snapshot, host schedule.ID) error {
	_, err := w.im.Ensure(ctx, x, host.String(), w.to)
	return err
}

// Run imports what was offered last, until ctx ends. After a step that failed it waits
// for the next offer.
func (w *Worker) Run(ctx context.Context) error {
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
			x, step := o.x, w.im.Step
			if o.instancesOnly {
				step = w.im.StepInstances
			}
			r, err := step(ctx, x, w.to)
			told := err
			if err == nil {
				told = w.look(ctx, x, &r)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.told(r, told)
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

// look looks for instances without a claim when it is time to. A look that fails has what
// was found before forgotten: nobody knows it then.
func (w *Worker) look(ctx context.Context, x *legacy.Snapshot, r *Report) error {
	finder, ok := w.to.(Finder)
	now := w.im.conf.Now()
	if !ok || now.Before(w.lookFrom) {
		w.report(w.Unclaimed(), r)
		return nil
	}
	found, err := w.im.FindUnclaimed(ctx, x, finder)
	var told *cellv1.UnclaimedInstances
	if err == nil {
		w.lookFrom = w.im.conf.Now().Add(lookAgain(r.Instances))
		told = found.message()
	}
	w.mu.Lock()
	if w.unclaimed = told; w.stopped {
		w.unclaimed = nil
	}
	w.mu.Unlock()
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "which instances have no claim cannot be looked for")
	}
	w.report(told, r)
	return nil
}

func (w *Worker) report(u *cellv1.UnclaimedInstances, r *Report) {
	r.Unclaimed = int(u.GetCount())
	for _, i := range u.GetFirst() {
		r.FirstUnclaimed = append(r.FirstUnclaimed, i.GetUuid()+" on "+i.GetHost())
	}
}

// Unclaimed gives the instances without a claim that were found last, as a gate is told
// of them; nil while another gateway imports, and when they could not be looked for. It
// is not to be changed.
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
