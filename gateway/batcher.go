package gateway

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/telemetry"
)

const (
	// A call is slow when it takes slowTimes as long as usual, and slowLeast at
	// least. Where all calls take long since the machine is busy, more of them would
	// only make it busier. After slowMost a call is slow whatever is usual.
	slowTimes = 10
	slowLeast = 10 * time.Millisecond
	slowMost  = 40 * time.Millisecond
	// usualOver is over about how many calls the usual time is.
	usualOver = 8
)

// batcher sends to one replica what callers ask of it. What comes while a call is under
// way waits and then goes as one call: an idle replica is asked at once, a busy one in
// batches as large as its backlog. Who waits for a call that is slow goes beside it.
type batcher[Q, A any] struct {
	// tasks owns the goroutines that send.
	tasks *sync.WaitGroup
	// calls bounds how many calls run at once; items and bytes bound one call, which
	// has one question at least.
	calls, items, bytes int
	// sizeOf gives what a question counts against those bounds.
	sizeOf func(Q) (items, bytes int)
	// call does one call, answers each of the batch and reports whether the replica
	// answered.
	call func(batch []*waiting[Q, A]) bool

	// usual is how long a call that is answered takes, in nanoseconds: a moving mean,
	// to which none counts as more than slowMost. Two calls that end at once may count
	// as one.
	usual atomic.Int64

	mu      sync.Mutex
	queue   []*waiting[Q, A]
	senders int
	// slow counts the calls under way that are slow.
	slow int
}

// waiting is one question on its way.
type waiting[Q, A any] struct {
	// ctx ends when nobody waits any more.
	ctx context.Context
	// closed ends when the replica's breaker opens; nil when that ends nothing.
	closed   context.Context
	question Q
	// since is when it was queued; wait covers the time until it is sent. The
	// queue's, then the sender's.
	since time.Time
	wait  telemetry.Span
	// done takes exactly one answer and never blocks.
	done chan A
}

// over reports whether nobody waits any more.
func (w *waiting[Q, A]) over() bool {
	return w.ctx.Err() != nil || w.closed != nil && w.closed.Err() != nil
}

// put queues a question.
func (b *batcher[Q, A]) put(w *waiting[Q, A]) {
	b.mu.Lock()
	b.queue = append(b.queue, w)
	b.start()
	b.mu.Unlock()
}

// start starts a sender when something waits that no sender will take soon. It
// needs mu.
func (b *batcher[Q, A]) start() {
	if len(b.queue) > 0 && b.senders < min(max(1, 1+b.slow), b.calls) {
		b.senders++
		b.tasks.Go(b.send)
	}
}

// send sends batches until nothing waits.
func (b *batcher[Q, A]) send() {
	for {
		batch := b.take()
		if batch == nil {
			return
		}
		began := time.Now()
		notice := time.AfterFunc(b.patience(), b.slows)
		answered := b.call(batch)
		if !notice.Stop() {
			b.quickens()
		}
		if answered {
			b.learn(time.Since(began))
		}
	}
}

// take gives the next batch: questions whose callers still wait, in order. Nil
// ends the sender.
func (b *batcher[Q, A]) take() []*waiting[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*waiting[Q, A]
	items, bytes, n := 0, 0, 0
	for _, w := range b.queue {
		i, size := b.sizeOf(w.question)
		if len(batch) > 0 && (items+i > b.items || bytes+size > b.bytes) {
			break
		}
		n++
		if w.over() {
			w.wait.End(context.Cause(w.ctx))
			continue
		}
		batch = append(batch, w)
		items, bytes = items+i, bytes+size
	}
	b.queue = slices.Delete(b.queue, 0, n)
	if batch == nil {
		b.senders--
	}
	return batch
}

// until is when the most patient of a batch gives up; zero when none has a deadline.
func until[Q, A any](batch []*waiting[Q, A]) time.Time {
	var last time.Time
	for _, w := range batch {
		if d, ok := w.ctx.Deadline(); ok && d.After(last) {
			last = d
		}
	}
	return last
}

// patience is after how long a call is slow.
func (b *batcher[Q, A]) patience() time.Duration {
	return min(max(slowTimes*time.Duration(b.usual.Load()), slowLeast), slowMost)
}

// learn is told how long a call took that was answered.
func (b *batcher[Q, A]) learn(took time.Duration) {
	usual := b.usual.Load()
	b.usual.Store(usual + (int64(min(took, slowMost))-usual)/usualOver)
}

// slows is told of a call that takes long, quickens of its end.
func (b *batcher[Q, A]) slows() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow++
	b.start()
}

func (b *batcher[Q, A]) quickens() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow--
}
