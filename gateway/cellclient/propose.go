package cellclient

import (
	"cmp"
	"context"
	"regexp"
	"slices"
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
		answer, err := r.propose(ctx, p.breakerOpen, q)
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

// propose queues a query and waits until it is answered, ctx ends, or the breaker opens,
// which ends breakerOpen.
func (r *Replica) propose(ctx, breakerOpen context.Context, q *cellv1.Query) (*cellv1.Proposal, error) {
	w := &waiting[*cellv1.Query, Answer]{ctx: ctx, breakerOpen: breakerOpen, question: q, done: make(chan Answer, 1)}
	_, w.wait = r.cells.tel.Span(ctx, telemetry.SpanBatchWait)
	line, other := &r.queries, &r.upToDate
	if q.GetUpToDate() && q.GetTableVersion() == "" {
		line, other = other, line
	}
	answers := other.answers.Load()
	line.put(w)
	got, answered := w.await()
	if !answered {
		got.Err = cmp.Or(ctx.Err(), breakerOpen.Err())
		line.withdraw(w)
	}
	if late := ctx.Err() != nil || rpc.TimedOut(got.Err); late && got.Err != nil && (line.busy(w) || other.answers.Load() > answers) {
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

// proposeBatch runs one ProposeBatch, until the latest deadline of its queries or until the breaker opens.
func (r *Replica) proposeBatch(batch []*waiting[*cellv1.Query, Answer]) bool {
	tel := r.cells.tel
	req := &cellv1.ProposeBatchRequest{}
	calls := make([]telemetry.Span, len(batch))
	tel.Sent(len(batch))
	began := time.Now()
	for i, a := range batch {
		query := a.question
		a.wait.End(nil)
		if _, calls[i] = tel.Span(a.ctx, telemetry.SpanCall); calls[i].On() {
			calls[i].Int(telemetry.AttrBatch, len(batch))
			// The query may be on its way to another replica too, so it must not be changed.
			query = proto.CloneOf(query)
			query.TraceParent = calls[i].TraceParent()
		}
		req.Queries = append(req.Queries, query)
	}
	ctx, cancel := context.WithDeadline(r.cells.ctx, until(batch))
	defer cancel()
	defer context.AfterFunc(batch[0].breakerOpen, cancel)()
	resp, err := r.client.ProposeBatch(ctx, req)
	r.cell.Telemetry.Called(ctx, req, time.Since(began), err)
	if err == nil && len(resp.GetProposals()) != len(batch) {
		err = fault.New(fault.Internal, "cell %s answered %d of %d queries", r.cell.Name(), len(resp.GetProposals()), len(batch))
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
