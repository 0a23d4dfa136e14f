package cellclient

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/telemetry"
)

const (
	// A call is slow when it takes slowTimes the usual time, and at least slowLeast: where
	// all calls take long on a busy machine, more of them would only make it busier. After
	// slowMost a call is slow in any case.
	slowTimes = 10
	slowLeast = 10 * time.Millisecond
	slowMost  = 40 * time.Millisecond
	// usualOver is about how many calls the moving mean of the usual time covers.
	usualOver = 8
)

// batcher sends callers' questions to one replica. Questions that arrive during a call wait
// and then go as one call. So an idle replica is asked at once, a busy one in batches as
// large as its backlog. While a call is slow, the questions behind it go in another call
// beside it.
type batcher[Q, A any] struct {
	// tasks owns the goroutines that send.
	tasks *sync.WaitGroup
	// calls bounds how many calls run at once; items and bytes bound one call, except that it
	// has at least one question. maxItems and maxBytes bound the queue, except that a first
	// question may be larger; 0 for no bound.
	calls, items, bytes int
	maxItems, maxBytes  int
	// sizeOf gives the items and bytes of a question, which count against those bounds.
	sizeOf func(Q) (items, bytes int)
	// call does one call, answers every question of the batch, and reports whether the
	// replica answered.
	call func(batch []*waiting[Q, A]) bool

	// usual is the moving mean of how long an answered call takes, in nanoseconds; each
	// counts as at most slowMost. Of two calls that end at once, one may not be counted.
	usual atomic.Int64
	// answers counts the calls that the replica answered.
	answers atomic.Int64

	mu    sync.Mutex
	queue []*waiting[Q, A]
	// queuedItems and queuedBytes are the sums over queue.
	queuedItems, queuedBytes int
	senders                  int
	// slow counts the calls under way that are slow.
	slow int
}

// waiting is a question that is queued or under way.
type waiting[Q, A any] struct {
	// ctx ends when the caller no longer waits.
	ctx context.Context
	// breakerOpen ends when the replica's breaker opens; nil if the caller then still waits.
	breakerOpen context.Context
	question    Q
	// wait is the span until it is sent. The queue owns it, then the sender.
	wait telemetry.Span
	// items and bytes are its size, answers is the batcher's count when it was queued.
	items, bytes int
	answers      int64
	// dropped: the sender took it from the queue and did not send it, since its caller no
	// longer waited. It needs the batcher's mu.
	dropped bool
	// done takes exactly one answer and never blocks.
	done chan A
}

// isAbandoned reports whether the caller no longer waits at now.
func (w *waiting[Q, A]) isAbandoned(now time.Time) bool {
	if until, ok := w.ctx.Deadline(); ok && !now.Before(until) {
		return true // its timer may be late
	}
	return w.ctx.Err() != nil || w.breakerOpen != nil && w.breakerOpen.Err() != nil
}

// await waits for the answer of a question. answered is false if its caller no longer waits.
func (w *waiting[Q, A]) await() (answer A, answered bool) {
	var breakerOpen <-chan struct{}
	if w.breakerOpen != nil {
		breakerOpen = w.breakerOpen.Done()
	}
	select {
	case answer = <-w.done:
		return answer, true
	case <-w.ctx.Done():
	case <-breakerOpen:
	}
	return answer, false
}

// put queues a question; it reports false if the queue is full.
func (b *batcher[Q, A]) put(w *waiting[Q, A]) bool {
	w.items, w.bytes = b.sizeOf(w.question)
	w.answers = b.answers.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 && (beyond(b.queuedItems+w.items, b.maxItems) || beyond(b.queuedBytes+w.bytes, b.maxBytes)) {
		return false
	}
	b.queue = append(b.queue, w)
	b.count(w, 1)
	b.start()
	return true
}

func beyond(n, bound int) bool { return bound > 0 && n > bound }

// count adds a question to the queue's sums, or subtracts it, as by is 1 or -1. It needs mu.
func (b *batcher[Q, A]) count(w *waiting[Q, A], by int) {
	b.queuedItems += by * w.items
	b.queuedBytes += by * w.bytes
}

// withdraw removes a question whose caller no longer waits. It reports false if the question
// was sent.
func (b *batcher[Q, A]) withdraw(w *waiting[Q, A]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.queue, w)
	if i < 0 {
		return w.dropped
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	b.count(w, -1)
	w.wait.End(context.Cause(w.ctx))
	return true
}

// busy reports whether the replica answered other calls since a question was queued.
func (b *batcher[Q, A]) busy(w *waiting[Q, A]) bool { return b.answers.Load() > w.answers }

// backlog estimates how long it takes to send the queue.
func (b *batcher[Q, A]) backlog() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(b.usual.Load()) * time.Duration(b.queuedItems/b.items)
}

// start starts a sender if the queue has questions and no sender is free soon: all calls
// under way are slow. It needs mu.
func (b *batcher[Q, A]) start() {
	if len(b.queue) > 0 && b.senders < min(max(1, 1+b.slow), b.calls) {
		b.senders++
		b.tasks.Go(b.send)
	}
}

// send sends batches until the queue is empty.
func (b *batcher[Q, A]) send() {
	for {
		batch := b.nextBatch()
		if batch == nil {
			return
		}
		began := time.Now()
		noticed := make(chan struct{})
		notice := time.AfterFunc(b.patience(), func() {
			defer close(noticed)
			b.countSlow(1)
		})
		answered := b.call(batch)
		if !notice.Stop() {
			<-noticed // the timer has started its sender before this one ends
			b.countSlow(-1)
		}
		if answered {
			b.answers.Add(1)
			b.learn(time.Since(began))
		}
	}
}

// nextBatch takes the next batch from the queue: questions whose callers still wait, in
// order. A nil batch ends the sender.
func (b *batcher[Q, A]) nextBatch() []*waiting[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*waiting[Q, A]
	items, bytes, n, now := 0, 0, 0, time.Now()
	for _, w := range b.queue {
		if len(batch) > 0 && (items+w.items > b.items || bytes+w.bytes > b.bytes) {
			break
		}
		n++
		b.count(w, -1)
		if w.isAbandoned(now) {
			w.dropped = true
			w.wait.End(context.Cause(w.ctx))
			continue
		}
		batch = append(batch, w)
		items, bytes = items+w.items, bytes+w.bytes
	}
	b.queue = slices.Delete(b.queue, 0, n)
	if batch == nil {
		b.senders--
	}
	return batch
}

// until is the latest deadline in a batch; zero if none has a deadline.
func until[Q, A any](batch []*waiting[Q, A]) time.Time {
	var last time.Time
	for _, w := range batch {
		if d, ok := w.ctx.Deadline(); ok && d.After(last) {
			last = d
		}
	}
	return last
}

// patience is the time after which a call is slow.
func (b *batcher[Q, A]) patience() time.Duration {
	return min(max(slowTimes*time.Duration(b.usual.Load()), slowLeast), slowMost)
}

// learn records how long an answered call took.
func (b *batcher[Q, A]) learn(took time.Duration) {
	usual := b.usual.Load()
	b.usual.Store(usual + (int64(min(took, slowMost))-usual)/usualOver)
}

// countSlow adds 1 to the slow calls when a call takes longer than patience, and -1 when that call ends.
func (b *batcher[Q, A]) countSlow(by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slow += by
	b.start()
}
