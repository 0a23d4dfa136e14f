package gateway

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// propose answers a query of a request from the cell's legacy rows. The claims that the
// consumers have are asked of the cell, which has them whatever the gate says; when it
// does not answer, there is no answer.
func (w *gate) propose(ctx context.Context, budget time.Duration, q *cellv1.Query) (*cellv1.Proposal, error) {
	bounded, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	absent := w.absent()
	if len(q.GetConsumerUuids()) == 0 {
		p, err := w.proposeOnce(bounded, q)
		return w.notFull(q, p, err, absent)
	}
	type found struct {
		claims *cellv1.Proposal
		err    error
	}
	held := make(chan found, 1)
	go func() {
		claims, err := w.cell.claimsOf(bounded, budget, q.GetConsumerUuids())
		held <- found{claims, err}
	}()
	rows := proto.CloneOf(q)
	rows.ConsumerUuids = nil
	p, err := w.proposeOnce(bounded, rows)
	if err != nil {
		cancel()
	}
	got := <-held
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case got.err != nil:
		return nil, got.err
	}
	p.Claims, p.ClaimOrigins = got.claims.GetClaims(), got.claims.GetClaimOrigins()
	return w.notFull(q, p, nil, absent)
}

// notFull has a proposal of no host fail while hosts are left out that cannot be imported,
// unless it names claims. After the first pick (takes) noHost says so. absent is why
// some were left out before it was made.
func (w *gate) notFull(q *cellv1.Query, p *cellv1.Proposal, err, absent error) (*cellv1.Proposal, error) {
	if err == nil && p.GetPassed() == 0 && len(p.GetClaims()) == 0 && len(q.GetTakes()) == 0 {
		err = cmp.Or(absent, w.absent())
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// proposeOnce asks the stand-in one query.
func (w *gate) proposeOnce(ctx context.Context, q *cellv1.Query) (*cellv1.Proposal, error) {
	resp, err := w.parts.StandIn.ProposeBatch(ctx, &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{q}})
	if err == nil && len(resp.GetProposals()) != 1 {
		err = fault.New(fault.Internal, "the stand-in of cell %s answered %d queries of one", w.cell.cfg.Name, len(resp.GetProposals()))
	}
	if err != nil {
		return nil, err
	}
	p := resp.GetProposals()[0]
	if f := p.GetFailure(); f != nil {
		return nil, refusedBy(f.GetReason(), f.GetMessage())
	}
	return p, nil
}

// claimsOf gives the live claims of consumers, as a proposal has them.
func (c *cell) claimsOf(ctx context.Context, budget time.Duration, consumers []string) (*cellv1.Proposal, error) {
	out, req := &cellv1.Proposal{}, &cellv1.ListClaimsRequest{ConsumerUuids: consumers, WantOrigins: true, PageSize: 1000}
	for {
		page, err := call(ctx, c, budget, req, cellv1.CellSchedulerClient.ListClaims)
		if err != nil {
			return nil, err
		}
		out.Claims = append(out.Claims, page.GetClaims()...)
		out.ClaimOrigins = append(out.ClaimOrigins, page.GetClaimOrigins()...)
		if !page.GetMore() || len(page.GetClaims()) == 0 {
			return out, nil
		}
		req.After = page.GetClaims()[len(page.GetClaims())-1].GetClaimId()
	}
}

// ask asks a cell one query: the stand-in while it answers for it. by is the replica
// that answered, nil for the stand-in.
func (s *selection) ask(ctx context.Context, cell int, round *allotment, budget time.Duration, q *cellv1.Query) (got proposed) {
	c := s.g.cells[cell]
	if v := &s.views[cell]; v.standIn {
		got.proposal, got.err = v.gate.propose(ctx, budget, q)
		return got
	}
	got.proposal, got.by, got.err = c.propose(ctx, round, budget, q, s.askFirst(cell))
	return got
}
