package replica

import (
	"cmp"
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
	// next is the first operation not yet dequeued. Guarded by the queue.
	next int
	// answers has one for each operation. left counts the missing ones; done is closed when there are
	// none. Until then the pipeline owns them.
	answers []Answer
	left    int
	done    chan struct{}
	// since is when the job was queued; zero once its first operation was dequeued. wait is the span in
	// between.
	since  time.Time
	wait   telemetry.Span
	urgent bool
}

// Answer is an operation's outcome, or why there is none.
type Answer struct {
	Outcome shard.Outcome
	Err     error
}

// Failure is Err, or the operation's refusal as an error; nil for neither.
func (a Answer) Failure() error {
	if r := a.Outcome.Refusal; a.Err == nil && r != nil {
		return fault.New(r.Kind, "%s", r.Message)
	}
	return a.Err
}

func newJob(ctx context.Context, ops []shard.Op) *job {
	return &job{ctx: ctx, ops: ops, answers: make([]Answer, len(ops)), left: len(ops), done: make(chan struct{})}
}

// item is one operation of a job.
type item struct {
	job   *job
	index int
}

func (i item) op() shard.Op { return i.job.ops[i.index] }

// answer sets the answer of an operation. It is not safe for concurrent use.
func (i item) answer(a Answer) {
	i.job.answers[i.index] = a
	if i.job.left--; i.job.left == 0 {
		close(i.job.done)
	}
}

// abandoned reports whether the operation's caller has left and the operation should be dropped: it
// takes something for that caller, or it writes the state of a host whose agent has left. Operations
// that release something are done all the same.
func (i item) abandoned() bool {
	op := i.op()
	return (op.Claim != nil || op.Pin != nil || op.Swap != nil || op.TakeOver != nil || op.PutHost != nil) && i.job.ctx.Err() != nil
}

// busyFor is how long after its last urgent job a queue counts as busy.
const busyFor = time.Second

// Queue is two bounded queues of jobs before the one lane. Urgent jobs are the foreground: operations
// that callers wait for (claims, confirms, releases). The others are the background: registrations,
// lease ends, repairs. The foreground has priority, and the background has a bounded share, never zero,
// of each transaction (next).
type Queue struct {
	max int
	tel telemetry.Cell
	// retryAfter is how long a refused caller should wait.
	retryAfter time.Duration

	mu     sync.Mutex
	closed bool
	urgent line
	other  line
	// urgentAt is when the last urgent job was queued; zero before the first.
	urgentAt time.Time
	// wake has one element while there may be operations to dequeue.
	wake chan struct{}
}

// line is a list of jobs in order of arrival, and the number of their operations that were not dequeued
// yet.
type line struct {
	jobs []*job
	ops  int
}

func newQueue(bound int, tel telemetry.Cell) *Queue {
	return &Queue{max: bound, tel: tel, retryAfter: 100 * time.Millisecond, wake: make(chan struct{}, 1)}
}

// Do queues operations and waits for their answers. It returns an error if nothing was queued, or if
// ctx ended before the answers came. Then the operations may still be done.
func (q *Queue) Do(ctx context.Context, ops []shard.Op, urgent bool) ([]Answer, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j := newJob(ctx, ops)
	j.since, j.urgent = time.Now(), urgent
	_, j.wait = q.tel.Span(ctx, telemetry.SpanQueue)
	j.wait.Int(telemetry.AttrOps, len(ops))
	if err := q.put(j, urgent); err != nil {
		if fault.KindOf(err) == fault.Overloaded {
			q.tel.QueueRefused(urgent)
		}
		j.wait.End(err)
		return nil, err
	}
	select {
	case <-j.done:
		return j.answers, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// DoOne is Do for one operation. A refusal is an outcome.
func (q *Queue) DoOne(ctx context.Context, op shard.Op, urgent bool) (shard.Outcome, error) {
	answers, err := q.Do(ctx, []shard.Op{op}, urgent)
	if err != nil {
		return shard.Outcome{}, err
	}
	return answers[0].Outcome, answers[0].Err
}

// DoAll is Do for background operations that must all succeed: it returns the first failure or refusal
// as an error.
func (q *Queue) DoAll(ctx context.Context, ops []shard.Op) ([]Answer, error) {
	answers, err := q.Do(ctx, ops, false)
	for _, a := range answers {
		err = cmp.Or(err, a.Failure())
	}
	return answers, err
}

// put queues a job. If the queue is full, it returns an Overloaded fault; if it is closed,
// CellUnavailable. A job larger than the bound is accepted if nothing waits.
func (q *Queue) put(j *job, urgent bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrStopping()
	}
	l := &q.other
	if urgent {
		l, q.urgentAt = &q.urgent, time.Now()
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

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// next dequeues at most limit operations. Urgent ones come first, and the others get the rest. While
// others wait, a share is reserved for them: a 32nd of the limit while the queue is busy, because
// callers wait for the whole transaction. While it is not busy, the share is an eighth, or up to a half
// if many wait, as after a replica's start.
//
// Each urgent job gets at most an eighth of a transaction before the next job's turn. So a call that
// ends thousands of claims delays other callers by no more than that.
func (q *Queue) next(limit int) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn, share := max(limit/8, 1), max(limit/32, 1)
	if !q.busyLocked() {
		share = max(turn, min(q.other.ops/8, limit/2))
	}
	share = min(q.other.ops, share)
	items := q.urgent.appendTurns(nil, max(limit-share, 1), turn)
	items = q.other.appendTurns(items, share, share)
	if q.urgent.ops+q.other.ops > 0 {
		q.signal()
	}
	return items
}

// IsBusy reports whether urgent jobs wait, or came within busyFor.
func (q *Queue) IsBusy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busyLocked()
}

func (q *Queue) busyLocked() bool {
	return q.urgent.ops > 0 || !q.urgentAt.IsZero() && time.Since(q.urgentAt) < busyFor
}

// mayPause reports whether the queue is busy and nothing urgent waits: the operations that wait can
// wait longer.
func (q *Queue) mayPause() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.ops == 0 && !q.closed && q.busyLocked()
}

// close refuses later jobs and returns the operations that still wait.
func (q *Queue) close() []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	items := q.urgent.appendTurns(nil, q.urgent.ops, q.urgent.ops)
	return q.other.appendTurns(items, q.other.ops, q.other.ops)
}

// appendTurns appends at most n operations of the line to items. Each job gives at most turn
// operations, and then goes to the end of the line.
func (l *line) appendTurns(items []item, n, turn int) []item {
	for n > 0 && len(l.jobs) > 0 {
		j := l.jobs[0]
		l.jobs[0] = nil
		l.jobs = l.jobs[1:]
		for left := turn; n > 0 && left > 0 && j.next < len(j.ops); n, left = n-1, left-1 {
			items = append(items, item{j, j.next})
			j.next++
			l.ops--
		}
		if j.next < len(j.ops) {
			l.jobs = append(l.jobs, j)
		}
	}
	return items
}

// Waiting counts the operations that wait.
func (q *Queue) Waiting() (urgent, other int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.urgent.ops, q.other.ops
}

// length counts all operations that wait.
func (q *Queue) length() int {
	urgent, other := q.Waiting()
	return urgent + other
}

// ErrStopping is the CELL_UNAVAILABLE fault of a replica that stops.
func ErrStopping() error {
	return fault.New(fault.CellUnavailable, "the cell's replica is stopping")
}
