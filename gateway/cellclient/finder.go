package cellclient

import (
	"context"
	"time"

	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// maxFound is how many claims one call searches for, as many as a cell accepts.
const maxFound = 256

// finder asks one replica for claims by id, and for those of several requests in one call if they queue. A traced
// request's ids go alone.
type finder struct {
	replica *Replica
	ctx     context.Context // that of Cells
	batcher[string, foundClaim]
}

// foundClaim has a nil claim when the cell has none with the id.
type foundClaim struct {
	claim *cellgatev1.Claim
	err   error
}

// FindClaim gives the cell's claim with an id, live or ended; nil for none. Errors are as those of Call.
func (c *Cell) FindClaim(ctx context.Context, budget time.Duration, id string) (*cellgatev1.Claim, error) {
	a := callOptions{budget: budget, fullBudget: c.ClaimBudget, mayRepeat: true, readOnly: true, order: c.InOrder("")}
	return try(ctx, c, a, func(ctx context.Context, r *Replica, p *pass) (*cellgatev1.Claim, error) {
		ctx, end := p.while(ctx)
		defer end()
		w := &waiting[string, foundClaim]{ctx: ctx, question: id, done: make(chan foundClaim, 1)}
		if telemetry.Sampled(ctx) {
			r.finder.find(ctx, w)
		} else {
			r.finder.put(w)
		}
		select {
		case got := <-w.done:
			return got.claim, got.err
		case <-ctx.Done():
			r.finder.withdraw(w)
			return nil, ctx.Err()
		}
	})
}

func (f *finder) init(r *Replica, cs *Cells) {
	f.replica, f.ctx = r, cs.ctx
	f.batcher = batcher[string, foundClaim]{
		tasks: &cs.Tasks, calls: maxBatches, items: maxFound, bytes: maxBatchBytes, call: f.call,
		sizeOf: func(id string) (int, int) { return 1, len(id) },
	}
}

func (f *finder) call(batch []*waiting[string, foundClaim]) bool {
	ctx, cancel := context.WithDeadline(f.ctx, until(batch))
	defer cancel()
	return f.find(ctx, batch...)
}

// find sends one call and answers each question of the batch.
func (f *finder) find(ctx context.Context, batch ...*waiting[string, foundClaim]) bool {
	req := &cellv1.ListClaimsRequest{}
	for _, w := range batch {
		req.ClaimIds = append(req.ClaimIds, w.question)
	}
	began := time.Now()
	resp, err := f.replica.client.ListClaims(ctx, req)
	f.replica.cell.Telemetry.Called(ctx, req, time.Since(began), err)
	found := map[string]*cellgatev1.Claim{}
	for _, claim := range resp.GetClaims() {
		found[claim.GetClaimId()] = claim
	}
	for _, w := range batch {
		w.done <- foundClaim{found[w.question], err}
	}
	return err == nil
}
