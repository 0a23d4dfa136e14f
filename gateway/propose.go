package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

const (
	// maxBatches is how many ProposeBatch calls to one cell run at once: one
	// that is slow does not hold up the next. Each more makes the batches
	// smaller, and the fixed cost of a call is that of several queries.
	maxBatches = 2
	// maxBatchQueries and maxBatchBytes bound one call.
	maxBatchQueries = 256
	maxBatchBytes   = rpc.MaxMessageBytes / 2
)

// proposer sends queries to one cell. Queries that arrive while maxBatches calls
// are under way wait and then go as one call: an idle cell is asked at once, a
// busy one in batches as large as its backlog.
type proposer struct {
	cell *cell
	// life bounds all calls; tasks owns the goroutines that send.
	life  context.Context
	tasks *sync.WaitGroup

	mu      sync.Mutex
	queue   []*asking
	senders int
}

// asking is one query on its way.
type asking struct {
	ctx   context.Context
	query *cellv1.Query
	// done takes exactly one answer and never blocks.
	done chan proposed
}

type proposed struct {
	proposal *cellv1.Proposal
	err      error
}

// propose asks the cell one query and waits budget at most. Errors are as those
// of call; one that the cell gave to this query alone has the kind it named.
func (p *proposer) propose(ctx context.Context, budget time.Duration, q *cellv1.Query) (*cellv1.Proposal, error) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	a := &asking{ctx: bounded, query: q, done: make(chan proposed, 1)}
	p.mu.Lock()
	p.queue = append(p.queue, a)
	start := p.senders < maxBatches
	if start {
		p.senders++
	}
	p.mu.Unlock()
	if start {
		p.tasks.Go(p.send)
	}
	var got proposed
	select {
	case got = <-a.done:
	case <-bounded.Done():
		got.err = bounded.Err()
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case got.err != nil && time.Since(began) >= budget:
		return nil, fault.Wrap(fault.CellUnavailable, got.err, "%s", p.cell.tooSlow(budget))
	case got.err != nil:
		return nil, got.err
	}
	if f := got.proposal.GetFailure(); f != nil {
		return nil, refusedBy(f.GetReason(), f.GetMessage())
	}
	return got.proposal, nil
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
		bytes := proto.Size(a.query)
		if len(batch) == maxBatchQueries || (len(batch) > 0 && size+bytes > maxBatchBytes) {
			break
		}
		n++
		if a.ctx.Err() != nil {
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

// call does one call, which may take as long as the most patient of its queries,
// and answers each of them.
func (p *proposer) call(batch []*asking) {
	req := &cellv1.ProposeBatchRequest{}
	var until time.Time
	for _, a := range batch {
		req.Queries = append(req.Queries, a.query)
		if d, ok := a.ctx.Deadline(); ok && d.After(until) {
			until = d
		}
	}
	resp, err := call(p.life, p.cell, time.Until(until), req, cellv1.CellSchedulerClient.ProposeBatch)
	if err == nil && len(resp.GetProposals()) != len(batch) {
		err = fault.New(fault.Internal, "cell %s answered %d of %d queries", p.cell.cfg.Name, len(resp.GetProposals()), len(batch))
	}
	for i, a := range batch {
		if err != nil {
			a.done <- proposed{err: err}
			continue
		}
		a.done <- proposed{proposal: resp.GetProposals()[i]}
	}
}

// refusedBy makes the error that a cell named in an answer.
func refusedBy(reason, message string) *fault.Error {
	kind := fault.Kind(reason)
	if !slices.Contains(fault.Kinds(), kind) {
		kind = fault.Internal
	}
	return fault.New(kind, "%s", message)
}
