package importer

import (
	"context"
	"sync/atomic"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/schedule"
)

// Worker makes the steps of an Importer whenever it is offered a snapshot.
type Worker struct {
	im *Importer
	to Caller
	// told hears of every step.
	told func(Report, error)

	latest  atomic.Pointer[legacy.Snapshot]
	stopped atomic.Bool
	offered chan struct{}
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
// as if nothing were known of what the cell has. It never blocks.
func (w *Worker) Offer(x *legacy.Snapshot) {
	if x == nil {
		w.stopped.Store(true)
	} else if w.stopped.Swap(false) {
		w.im.Again()
	}
	w.latest.Store(x)
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
			x := w.latest.Load()
			if x == nil {
				break
			}
			r, err := w.im.Step(ctx, x, w.to)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.told(r, err)
			if err != nil || r.Waiting <= r.Held {
				break
			}
			if err := wait(ctx, betweenSteps); err != nil {
				return err
			}
		}
	}
}
