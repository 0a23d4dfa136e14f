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
	// has one question at least. maxItems and maxBytes bound what waits, of which one
	// question may be larger; 0 for no bound.
	calls, items, bytes int
	maxItems, maxBytes  int
	// sizeOf gives what a question counts against those bounds.
	sizeOf func(Q) (items, bytes int)
	// call does one call, answers each of the batch and reports whether the replica
	// answered.
	call func(batch []*waiting[Q, A]) bool

	// usual is how long a call that is answered takes, in nanoseconds: a moving mean,
	// to which none counts as more than slowMost. Two calls that end at once may count
	// as one.
	usual atomic.Int64
	// answers counts the calls that the replica answered.
	answers atomic.Int64

	mu    sync.Mutex
	queue []*waiting[Q, A]
	// queuedItems and queuedBytes are what waits.
	queuedItems, queuedBytes int
	senders                  int
	// slow counts the calls under way that are slow.
	slow int
}

// waiting is one question on its way.
type waiting[Q, A any] struct {
	// ctx ends when nobody waits any more.
	ctx context.Context
	// breakerOpen ends when the replica's breaker opens; nil when that ends nothing.
	breakerOpen context.Context
	question    Q
	// since is when it was queued; wait covers the time until it is sent. The
	// queue's, then the sender's.
	since time.Time
	wait  telemetry.Span
	// items and bytes are what it counts, answers the batcher's when it was queued.
	items, bytes int
	answers      int64
	// dropped: it was taken from the queue and not sent, for nobody waited any more. It
	// needs the batcher's mu.
	dropped bool
	// done takes exactly one answer and never blocks.
	done chan A
}

// over reports whether nobody waits any more at a time.
func (w *waiting[Q, A]) over(now time.Time) bool {
	if until, ok := w.ctx.Deadline(); ok && !now.Before(until) {
		return true // its timer may be late
	}
	return w.ctx.Err() != nil || w.breakerOpen != nil && w.breakerOpen.Err() != nil
}

// put queues a question, unless too much waits.
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

// count counts a question in or out of the queue. It needs mu.
func (b *batcher[Q, A]) count(w *waiting[Q, A], by int) {
	b.queuedItems += by * w.items
	b.queuedBytes += by * w.bytes
}

// withdraw takes back a question that nobody waits for any more. It reports false when it
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

// backlog is about how long it takes until what waits was sent.
func (b *batcher[Q, A]) backlog() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(b.usual.Load()) * time.Duration(b.queuedItems/b.items)
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
		batch := b.nextBatch()
		if batch == nil {
			return
		}
		began := time.Now()
		noticed := make(chan struct{})
		notice := time.AfterFunc(b.patience(), func() {
			defer close(noticed)
			b.slows()
		})
		answered := b.call(batch)
		if !notice.Stop() {
			<-noticed // the sender that slows starts is there before this one ends
			b.quickens()
		}
		if answered {
			b.answers.Add(1)
			b.learn(time.Since(began))
		}
	}
}

// nextBatch gives the next batch: questions whose callers still wait, in order. Nil
// ends the sender.
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
		if w.over(now) {
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

// learn records how long an answered call took.
func (b *batcher[Q, A]) learn(took time.Duration) {
	usual := b.usual.Load()
	b.usual.Store(usual + (int64(min(took, slowMost))-usual)/usualOver)
}

// slows records that a call takes longer than patience, quickens that it ended.
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
