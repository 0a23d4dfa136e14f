package cell

import (
	"context"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	"cellgate/shard"
)

// job is the operations of one caller, in order, and their answers.
type job struct {
	ctx context.Context
	ops []shard.Op
	// next is the first operation not yet taken; the queue's.
	next int
	// answers has one for each operation. left counts those still to come; done
	// is closed when there are none. Until then they are the pipeline's.
	answers []answer
	left    int
	done    chan struct{}
	// since is when it was queued, zero once the pipeline took its first
	// operation; wait covers the time between.
	since  time.Time
	wait   telemetry.Span
	urgent bool
}

// answer is an operation's outcome, or why there is none.
type answer struct {
	outcome shard.Outcome
	err     error
}

func newJob(ctx context.Context, ops []shard.Op) *job {
	return &job{ctx: ctx, ops: ops, answers: make([]answer, len(ops)), left: len(ops), done: make(chan struct{})}
}

// item is one operation of a job.
type item struct {
	job   *job
	index int
}

func (i item) op() shard.Op { return i.job.ops[i.index] }

// settle gives an operation its answer. One goroutine at a time.
func (i item) settle(a answer) {
	i.job.answers[i.index] = a
	if i.job.left--; i.job.left == 0 {
		close(i.job.done)
	}
}

// abandoned reports whether nobody waits for the operation any more and it is
// better not done: something to take, whose taker has left, or the state of a host
// whose agent has. Operations that give back are done all the same.
func (i item) abandoned() bool {
	op := i.op()
	return (op.Claim != nil || op.Pin != nil || op.Swap != nil || op.Keep != nil || op.PutHost != nil) && i.job.ctx.Err() != nil
}

// queue is two bounded queues of jobs before the one lane: urgent ones (claims)
// and the others (registrations, lease ends).
type queue struct {
	max int
	// retryAfter is what a refused caller is told.
	retryAfter time.Duration

	mu     sync.Mutex
	closed bool
	urgent line
	other  line
	// wake has one element while there may be something to take.
	wake chan struct{}
}

// line is jobs in the order they came, and how many of their operations were
// not taken yet.
type line struct {
	jobs []*job
	ops  int
}

func newQueue(bound int) *queue {
	return &queue{max: bound, retryAfter: 100 * time.Millisecond, wake: make(chan struct{}, 1)}
}

// put queues a job. A full queue is an Overloaded fault, a closed one
// CellUnavailable; a job larger than the bound is taken when nothing waits.
func (q *queue) put(j *job, urgent bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errStopping()
	}
	l := &q.other
	if urgent {
		l = &q.urgent
	}
	if l.ops > 0 && l.ops+len(j.ops) > q.max {
		return &fault.Error{
			Kind:       fault.Overloaded,
			Message:    "too many operations wait for the cell's shard",
			RetryAfter: q.retryAfter,
		}
	}
	l.jobs = append(l.jobs, j)
	l.ops += len(j.ops)
	q.signal()
	return nil
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take gives at most limit operations: urgent ones first, the others in what is
// left, but at most an eighth, so that a transaction of registrations stays
// short; that eighth is kept free for them while they wait. While nothing urgent
// waits and many others do, as after a replica's start, it is up to a half.
func (q *queue) take(limit int) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	share := max(limit/8, 1)
	if q.urgent.ops == 0 {
		share = max(share, min(q.other.ops/8, limit/2))
	}
	share = min(q.other.ops, share)
	items := q.urgent.take(nil, max(limit-share, 1))
	items = q.other.take(items, share)
	if q.urgent.ops+q.other.ops > 0 {
		q.signal()
	}
	return items
}

// close refuses what comes later and gives what still waits.
func (q *queue) close() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	items := q.urgent.take(nil, q.urgent.ops)
	return q.other.take(items, q.other.ops)
}

// take appends at most n operations of the line to items.
func (l *line) take(items []item, n int) []item {
	for n > 0 && len(l.jobs) > 0 {
		j := l.jobs[0]
		for ; n > 0 && j.next < len(j.ops); n-- {
			items = append(items, item{j, j.next})
			j.next++
			l.ops--
		}
		if j.next == len(j.ops) {
			l.jobs[0] = nil
			l.jobs = l.jobs[1:]
		}
	}
	return items
}

// waiting counts the operations that wait.
func (q *queue) waiting() (urgent, other int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.ops, q.other.ops
}

// length counts all operations that wait.
func (q *queue) length() int {
	urgent, other := q.waiting()
	return urgent + other
}

func errStopping() error {
	return fault.New(fault.CellUnavailable, "the cell's replica is stopping")
}
