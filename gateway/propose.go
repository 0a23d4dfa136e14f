package gateway

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// maxBatches is how many ProposeBatch calls to one replica run at once: one
	// that is slow does not hold up the next. Each more makes the batches smaller,
	// and the fixed cost of a call is that of several queries.
	maxBatches = 2
	// A call is slow when it takes slowTimes as long as usual, and slowLeast at
	// least. Where all calls take long since the machine is busy, more of them would
	// only make it busier. After slowMost a call is slow whatever is usual.
	slowTimes = 10
	slowLeast = 10 * time.Millisecond
	slowMost  = 40 * time.Millisecond
	// usualOver is over about how many calls the usual time is.
	usualOver = 8
	// maxBatchQueries and maxBatchBytes bound one call.
	maxBatchQueries = 256
	maxBatchBytes   = rpc.MaxMessageBytes / 2
)

// proposer sends queries to one replica. Queries that arrive while a call is under
// way wait and then go as one call: an idle replica is asked at once, a busy one in
// batches as large as its backlog. Who waits for a call that is slow goes beside it.
type proposer struct {
	replica *replica
	// life bounds all calls; tasks owns the goroutines that send.
	life  context.Context
	tasks *sync.WaitGroup
	tel   *telemetry.Gateway

	// answered is when a batch was last answered, in time since began.
	began    time.Time
	answered atomic.Int64
	// usual is how long a call that is answered takes, in nanoseconds: a moving mean,
	// to which none counts as more than slowMost. Two calls that end at once may count
	// as one.
	usual atomic.Int64

	mu      sync.Mutex
	queue   []*asking
	senders int
	// slow counts the calls under way that are slow.
	slow int
}

// asking is one query on its way.
type asking struct {
	// ctx ends when nobody waits any more.
	ctx context.Context
	// closed ends when the replica's breaker opens.
	closed context.Context
	query  *cellv1.Query
	// since is when it was queued; wait covers the time until it is sent. The
	// queue's, then the sender's.
	since time.Time
	wait  telemetry.Span
	// done takes exactly one answer and never blocks.
	done chan proposed
}

type proposed struct {
	proposal *cellv1.Proposal
	by       *replica
	err      error
}

// propose asks the cell one query and waits budget at most. Errors are as those
// of call; one that the cell gave to this query alone has the kind it named.
//
// The breaker counts queries, not the batches they go in: when a replica hangs,
// what waited for it in the queue failed too. When it answered others meanwhile it
// is busy, and not to blame.
//
// The replicas are asked in order, nil for any; by is the one that answered. round is
// that of the queries sent at once, nil for one alone.
func (c *cell) propose(ctx context.Context, round *allotment, budget time.Duration, q *cellv1.Query, order []*replica) (answer *cellv1.Proposal, by *replica, err error) {
	ctx, span := c.tel.Span(ctx, telemetry.SpanAsk)
	defer func() { span.End(err) }()
	if span.On() {
		round = nil // its context is not below the span
	}
	a := attempt{budget: budget, fair: c.proposeBudget, again: true, read: true, order: order, within: round}
	got, err := try(ctx, c, a, func(ctx context.Context, r *replica, p *pass) (proposed, error) {
		answer, err := r.proposer.propose(ctx, p.closed, q)
		return proposed{proposal: answer, by: r}, err
	})
	if err != nil {
		return nil, nil, err
	}
	if f := got.proposal.GetFailure(); f != nil {
		return nil, got.by, refusedBy(f.GetReason(), f.GetMessage())
	}
	return got.proposal, got.by, nil
}

// propose queues a query and waits until it is answered, ctx ends or the breaker
// opens.
func (p *proposer) propose(ctx, closed context.Context, q *cellv1.Query) (*cellv1.Proposal, error) {
	since := time.Since(p.began)
	a := &asking{ctx: ctx, closed: closed, query: q, since: time.Now(), done: make(chan proposed, 1)}
	_, a.wait = p.tel.Span(ctx, telemetry.SpanBatchWait)
	p.mu.Lock()
	p.queue = append(p.queue, a)
	p.start()
	p.mu.Unlock()
	var got proposed
	select {
	case got = <-a.done:
	case <-ctx.Done():
		got.err = ctx.Err()
	case <-closed.Done():
		got.err = closed.Err()
	}
	if late := ctx.Err() != nil || rpc.TimedOut(got.err); late && got.err != nil && p.answered.Load() > int64(since) {
		got.err = errBusy
	}
	return got.proposal, got.err
}

// start starts a sender when something waits that no sender will take soon. It
// needs mu.
func (p *proposer) start() {
	if len(p.queue) > 0 && p.senders < min(max(1, 1+p.slow), maxBatches) {
		p.senders++
		p.tasks.Go(p.send)
	}
}

// send sends batches until nothing waits.
func (p *proposer) send() {
	for {
		batch := p.take()
		if batch == nil {
			return
		}
		p.call(batch)
	}
}

// take gives the next batch: queries whose callers still wait, in order. Nil
// ends the sender.
func (p *proposer) take() []*asking {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []*asking
	size, n := 0, 0
	for _, a := range p.queue {
		bytes := sizeOf(a.query)
		if len(batch) == maxBatchQueries || (len(batch) > 0 && size+bytes > maxBatchBytes) {
			break
		}
		n++
		if a.ctx.Err() != nil || a.closed.Err() != nil {
			a.wait.End(context.Cause(a.ctx))
			continue
		}
		batch = append(batch, a)
		size += bytes
	}
	p.queue = slices.Delete(p.queue, 0, n)
	if batch == nil {
		p.senders--
	}
	return batch
}

// sizeOf is about how many bytes a query takes on the wire, and not less.
func sizeOf(q *cellv1.Query) int {
	const fixed, item, id = 512, 64, 40
	size := fixed + len(q.GetPlacement()) + item*len(q.GetKnown().GetBoundsFlat()) + 2*id*len(q.GetTakes()) + id*len(q.GetConsumerUuids())
	for _, h := range q.GetKnown().GetGroupHosts() {
		size += item + len(h)
	}
	return size
}

// call does one call, which may take as long as the most patient of its queries
// and until the breaker opens, and answers each of them.
func (p *proposer) call(batch []*asking) {
	req := &cellv1.ProposeBatchRequest{}
	var until time.Time
	calls := make([]telemetry.Span, len(batch))
	p.tel.Sent(len(batch))
	began := time.Now()
	for i, a := range batch {
		query := a.query
		p.tel.Waited(began.Sub(a.since))
		a.wait.End(nil)
		if _, calls[i] = p.tel.Span(a.ctx, telemetry.SpanCall); calls[i].On() {
			calls[i].Int(telemetry.AttrBatch, len(batch))
			// The query may be on its way to another replica too.
			query = proto.CloneOf(query)
			query.TraceParent = calls[i].TraceParent()
		}
		req.Queries = append(req.Queries, query)
		if d, ok := a.ctx.Deadline(); ok && d.After(until) {
			until = d
		}
	}
	ctx, cancel := context.WithDeadline(p.life, until)
	defer cancel()
	defer context.AfterFunc(batch[0].closed, cancel)()
	notice := time.AfterFunc(p.patience(), p.slows)
	resp, err := p.replica.client.ProposeBatch(ctx, req)
	took := time.Since(began)
	if !notice.Stop() {
		p.quickens()
	}
	p.replica.cell.tel.Called(ctx, req, took, err)
	if err == nil {
		p.answered.Store(int64(time.Since(p.began)))
		p.learn(took)
	}
	if err == nil && len(resp.GetProposals()) != len(batch) {
		err = fault.New(fault.Internal, "cell %s answered %d of %d queries", p.replica.cell.cfg.Name, len(resp.GetProposals()), len(batch))
	}
	for i, a := range batch {
		calls[i].End(err)
		if err != nil {
			a.done <- proposed{err: err}
			continue
		}
		a.done <- proposed{proposal: resp.GetProposals()[i]}
	}
}

// patience is after how long a call is slow.
func (p *proposer) patience() time.Duration {
	return min(max(slowTimes*time.Duration(p.usual.Load()), slowLeast), slowMost)
}

// learn is told how long a call took that was answered.
func (p *proposer) learn(took time.Duration) {
	usual := p.usual.Load()
	p.usual.Store(usual + (int64(min(took, slowMost))-usual)/usualOver)
}

// slows is told of a call that takes long, quickens of its end.
func (p *proposer) slows() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow++
	p.start()
}

func (p *proposer) quickens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow--
}

// fieldFirst is a message that begins with the path of a field.
var fieldFirst = regexp.MustCompile(`^([a-z][a-z0-9_]*(?:\[[0-9]+\])?(?:\.[a-z][a-z0-9_]*(?:\[[0-9]+\])?)*): (.+)`)

// refusedBy makes the error that a cell named in an answer. An invalid field that
// the message begins with is named in Fields too.
func refusedBy(reason, message string) *fault.Error {
	kind := fault.Kind(reason)
	if !slices.Contains(fault.Kinds(), kind) {
		kind = fault.Internal
	}
	e := fault.New(kind, "%s", message)
	if m := fieldFirst.FindStringSubmatch(message); kind == fault.InvalidRequest && m != nil {
		e.Fields = []fault.Field{{Path: m[1], Problem: m[2]}}
	}
	return e
}
