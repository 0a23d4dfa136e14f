package cellclient

import (
	"context"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// maxBatches is how many ProposeBatch calls of one kind to one replica run at once: a
	// slow one does not delay the next. More calls would make the batches smaller, and the
	// fixed cost of a call equals that of several queries.
	maxBatches = 2
	// maxBatchQueries and maxBatchBytes bound one call.
	maxBatchQueries = 256
	maxBatchBytes   = rpc.MaxMessageBytes / 2
)

// proposer sends queries to one replica; see batcher.
type proposer struct {
	replica *Replica
	// ctx is the context of Cells, and bounds all calls.
	ctx context.Context
	tel *telemetry.Gateway
	// upToDate takes the queries before which the replica reads its journal, in calls of
	// their own, so that no other query waits for that. plain takes all others.
	plain, upToDate batcher[*cellv1.Query, Answer]

	// answered is when a batch was last answered, as a duration since began.
	began    time.Time
	answered atomic.Int64
}

type Answer struct {
	Proposal *cellv1.Proposal
	By       *Replica
	Err      error
}

// Propose asks the cell one query and waits at most budget. Errors are as those of Call. An
// error that the cell gave to this query alone has the kind that the cell named; with it, the
// answer still says where the cell's gate is.
//
// The breaker counts queries, not their batches: if a replica hangs, the queries in its queue
// fail too. If it answered other batches meanwhile, it is busy and not to blame.
//
// The replicas are asked in order; nil for any order. by is the replica that answered.
func (c *Cell) Propose(ctx context.Context, budget time.Duration, q *cellv1.Query, order []*Replica) (answer *cellv1.Proposal, by *Replica, err error) {
	ctx, span := c.Telemetry.Span(ctx, telemetry.SpanAsk)
	defer func() { span.End(err) }()
	a := callOptions{budget: budget, fullBudget: c.proposeBudget, mayRepeat: true, readOnly: true, order: order}
	got, err := try(ctx, c, a, func(ctx context.Context, r *Replica, p *pass) (Answer, error) {
		answer, err := r.proposer.propose(ctx, p.breakerOpen, q)
		return Answer{Proposal: answer, By: r}, err
	})
	if err != nil {
		return nil, nil, err
	}
	if f := got.Proposal.GetFailure(); f != nil {
		err := RefusalError(f.GetReason(), f.GetMessage())
		if err.Kind == fault.Overloaded {
			return got.Proposal, got.By, tooSlow(err, c, budget)
		}
		return got.Proposal, got.By, err
	}
	return got.Proposal, got.By, nil
}

func (p *proposer) init(r *Replica, cs *Cells) {
	p.replica, p.ctx, p.tel, p.began = r, cs.ctx, cs.tel, time.Now()
	for _, b := range []*batcher[*cellv1.Query, Answer]{&p.plain, &p.upToDate} {
		*b = batcher[*cellv1.Query, Answer]{
			tasks: &cs.Tasks, calls: maxBatches, items: maxBatchQueries, bytes: maxBatchBytes, call: p.call,
			sizeOf: func(q *cellv1.Query) (int, int) { return 1, sizeOf(q) },
		}
	}
}

// propose queues a query and waits until it is answered, ctx ends, or the breaker opens,
// which ends breakerOpen.
func (p *proposer) propose(ctx, breakerOpen context.Context, q *cellv1.Query) (*cellv1.Proposal, error) {
	since := time.Since(p.began)
	a := &waiting[*cellv1.Query, Answer]{ctx: ctx, breakerOpen: breakerOpen, question: q, done: make(chan Answer, 1)}
	_, a.wait = p.tel.Span(ctx, telemetry.SpanBatchWait)
	line := &p.plain
	if q.GetUpToDate() && q.GetTableVersion() == "" {
		line = &p.upToDate
	}
	line.put(a)
	var got Answer
	select {
	case got = <-a.done:
	case <-ctx.Done():
		got.Err = ctx.Err()
		line.withdraw(a)
	case <-breakerOpen.Done():
		got.Err = breakerOpen.Err()
		line.withdraw(a)
	}
	if late := ctx.Err() != nil || rpc.TimedOut(got.Err); late && got.Err != nil && p.answered.Load() > int64(since) {
		got.Err = errBusy
	}
	return got.Proposal, got.Err
}

// sizeOf is an upper estimate of a query's bytes on the wire.
func sizeOf(q *cellv1.Query) int {
	const fixed, item, id = 512, 64, 40
	size := fixed + len(q.GetPlacement()) + item*len(q.GetKnown().GetBounds()) + 2*id*len(q.GetTentativePlacements()) + id*len(q.GetConsumerUuids())
	for _, h := range q.GetKnown().GetGroupHosts() {
		size += item + len(h)
	}
	return size
}

// call runs one ProposeBatch, until the latest deadline of its queries or until the breaker opens.
func (p *proposer) call(batch []*waiting[*cellv1.Query, Answer]) bool {
	req := &cellv1.ProposeBatchRequest{}
	calls := make([]telemetry.Span, len(batch))
	p.tel.Sent(len(batch))
	began := time.Now()
	for i, a := range batch {
		query := a.question
		a.wait.End(nil)
		if _, calls[i] = p.tel.Span(a.ctx, telemetry.SpanCall); calls[i].On() {
			calls[i].Int(telemetry.AttrBatch, len(batch))
			// The query may be on its way to another replica too, so it must not be changed.
			query = proto.CloneOf(query)
			query.TraceParent = calls[i].TraceParent()
		}
		req.Queries = append(req.Queries, query)
	}
	ctx, cancel := context.WithDeadline(p.ctx, until(batch))
	defer cancel()
	defer context.AfterFunc(batch[0].breakerOpen, cancel)()
	resp, err := p.replica.client.ProposeBatch(ctx, req)
	p.replica.cell.Telemetry.Called(ctx, req, time.Since(began), err)
	if err == nil {
		p.answered.Store(int64(time.Since(p.began)))
		if len(resp.GetProposals()) != len(batch) {
			err = fault.New(fault.Internal, "cell %s answered %d of %d queries", p.replica.cell.Name(), len(resp.GetProposals()), len(batch))
		}
	}
	for i, a := range batch {
		calls[i].End(err)
		if err != nil {
			a.done <- Answer{Err: err}
			continue
		}
		a.done <- Answer{Proposal: resp.GetProposals()[i]}
	}
	return err == nil
}

// fieldFirst matches a message that begins with the path of a field.
var fieldFirst = regexp.MustCompile(`^([a-z][a-z0-9_]*(?:\[[0-9]+\])?(?:\.[a-z][a-z0-9_]*(?:\[[0-9]+\])?)*): (.+)`)

// RefusalError makes the error that a cell named in an answer. If the message begins with the
// path of an invalid field, Fields has that field too.
func RefusalError(reason, message string) *fault.Error {
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
