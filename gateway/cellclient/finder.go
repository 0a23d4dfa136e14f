package cellclient

import (
	"cmp"
	"context"
	"time"

	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxFound is how many claims one call searches for, as many as a cell accepts.
const maxFound = 256

// foundClaim has a nil claim when the cell has none with the id.
type foundClaim struct {
	claim *cellgatev1.Claim
	err   error
}

// FindClaim gives the cell's claim with an id, live or ended; nil for none. The searches of several requests share a
// call if they queue. Errors are as those of Call.
func (c *Cell) FindClaim(ctx context.Context, budget time.Duration, id string) (*cellgatev1.Claim, error) {
	a := callOptions{budget: budget, fullBudget: c.ClaimBudget, mayRepeat: true, readOnly: true, order: c.InOrder("")}
	return try(ctx, c, a, func(ctx context.Context, r *Replica, p *pass) (*cellgatev1.Claim, error) {
		w := &waiting[string, foundClaim]{ctx: ctx, breakerOpen: p.breakerOpen, question: id, done: make(chan foundClaim, 1)}
		if telemetry.Sampled(ctx) { // in a batch, the replica's span could not be a child of the request's
			ctx, end := p.while(ctx)
			defer end()
			r.search(ctx, w)
		} else {
			r.searches.put(w)
		}
		got, answered := w.await()
		if !answered {
			r.searches.withdraw(w)
			return nil, cmp.Or(ctx.Err(), p.breakerOpen.Err())
		}
		return got.claim, got.err
	})
}

// searchBatch searches for a batch of questions of several requests.
func (r *Replica) searchBatch(batch []*waiting[string, foundClaim]) bool {
	ctx, cancel := context.WithDeadline(r.cells.ctx, until(batch))
	defer cancel()
	return r.search(ctx, batch...)
}

// search sends one call and answers each question.
func (r *Replica) search(ctx context.Context, batch ...*waiting[string, foundClaim]) bool {
	req := &cellv1.ListClaimsRequest{}
	for _, w := range batch {
		req.ClaimIds = append(req.ClaimIds, w.question)
	}
	began := time.Now()
	resp, err := r.client.ListClaims(ctx, req)
	r.cell.Telemetry.Called(ctx, req, time.Since(began), err)
	found := map[string]*cellgatev1.Claim{}
	for _, claim := range resp.GetClaims() {
		found[claim.GetClaimId()] = claim
	}
	for _, w := range batch {
		w.done <- foundClaim{found[w.question], err}
	}
	return err == nil
}
