package cell

import (
	"context"
	"slices"
	"time"

	"cellgate/cell/gate"
	"cellgate/cell/proposals"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// ProposeBatch answers each query from one version of the table: the version that the query names, else
// the newest at the start of the call. While the table is being loaded, it answers from a small table
// of the hosts that the shard finds for the query. A failing query fails alone, and so does one that is
// not answered after seven eighths of the call's time: OVERLOADED. All queries fail while the shard does
// not commit, since proposed hosts could not be claimed; while the gate is not known; and while Nova's
// tables report the hosts and no gateway imports them. The replica computes at most GOMAXPROCS proposals
// at once.
func (s *scheduler) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	queries := req.GetQueries()
	b, err := s.newProposeBatch(ctx, queries)
	if err != nil {
		return nil, err
	}
	workers := cap(s.slots)
	if b.loading {
		workers = len(queries) // they wait for the shard
	}
	ctx, cancel := beforeEnd(ctx)
	defer cancel()
	out := make([]*cellv1.Proposal, len(queries))
	err = proposals.Each(ctx, len(queries), workers, func(ctx context.Context, i int) (err error) {
		out[i], err = b.answer(ctx, queries[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return &cellv1.ProposeBatchResponse{Proposals: out}, nil
}

// proposeBatch is one ProposeBatch call: what all of its queries are answered from.
type proposeBatch struct {
	*Cell
	// call is the context of the whole call, which ends after that of its queries.
	call context.Context
	gate *shard.Gate
	// loading: there is no table yet; else newest is it, and name its name.
	loading bool
	newest  proposals.Version
	name    string
	// mayBeStale: other replicas may have committed what the table does not have yet.
	mayBeStale bool
}

// newProposeBatch gives the batch, or the error with which all of its queries fail.
func (s *scheduler) newProposeBatch(ctx context.Context, queries []*cellv1.Query) (*proposeBatch, error) {
	if err := s.placing(); err != nil {
		return nil, err
	}
	b := &proposeBatch{Cell: s.Cell, call: ctx, loading: s.loading()}
	if b.loading {
		if !s.table.Follower.KnowsGate() {
			return nil, errLoading()
		}
		b.gate = s.rows.TableGate.Load()
		return b, nil
	}
	if err := s.journal.AwaitFresh(ctx); err != nil {
		return nil, err
	}
	if b.mayBeStale = s.journal.HasOthers(); b.mayBeStale && slices.ContainsFunc(queries, upToDate) {
		b.mayBeStale = !s.catchUp(ctx)
	}
	b.gate = s.rows.TableGate.Load() // before the table, which is as new then
	b.newest.Table, b.name = s.versions.Newest()
	return b, nil
}

// answer answers one query; an error gives up the whole batch.
func (b *proposeBatch) answer(ctx context.Context, q *cellv1.Query) (*cellv1.Proposal, error) {
	under, span := b.tel.Propose(ctx, q.GetTraceParent())
	p, failed := b.find(ctx, under, q)
	if failed != nil && ctx.Err() != nil {
		if err := b.call.Err(); err != nil { // nobody waits
			span.End(err)
			return nil, err
		}
		failed = fault.New(fault.Overloaded, "the query was not answered in time")
	}
	if failed != nil {
		p = &cellv1.Proposal{Failure: proposals.FailureOf(failed)}
	}
	p.Gate, p.MayBeStale = gate.MessageState(b.gate), b.mayBeStale
	span.Int(telemetry.AttrHosts, int(p.GetHosts()))
	span.Int(telemetry.AttrPassed, int(p.GetPassed()))
	span.Text(telemetry.AttrVersion, p.GetTableVersion())
	span.End(failed)
	return p, nil
}

// find finds the hosts for one query. The spans of its steps are under the context under.
func (b *proposeBatch) find(ctx, under context.Context, q *cellv1.Query) (p *cellv1.Proposal, err error) {
	if why := b.table.Imports.WhyUnavailable(b.gate); why != "" {
		return nil, fault.New(fault.CellUnavailable, "%s", why)
	}
	at, name := b.newest, b.name
	if b.loading {
		defer func() {
			if ctx.Err() == nil {
				b.tel.Cold(p.GetTruncated(), err)
			}
		}()
		if q.GetTableVersion() == "" {
			_, search := b.tel.Span(under, telemetry.SpanSearch)
			at, name, err = b.search(ctx, q)
			search.End(err)
			if err != nil {
				return nil, err
			}
		}
	}
	_, wait := b.tel.Span(under, telemetry.SpanSlot)
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
	}
	wait.End(ctx.Err())
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := time.Now()
	b.spareNearMisses(q)
	p, err = b.propose(ctx, at, name, q)
	took := time.Since(began)
	b.tel.Proposed(took)
	b.countNearMisses(q, took)
	return p, err
}

// endShare is the part of a call's time that is left for its answer when queries are stopped.
const endShare = 8

// beforeEnd gives the context of a call's queries. It ends before the call does, so that a query that takes too long
// does not cost the others their answers.
func beforeEnd(call context.Context) (context.Context, context.CancelFunc) {
	end, ok := call.Deadline()
	if !ok {
		return call, func() {}
	}
	return context.WithDeadline(call, end.Add(-time.Until(end)/endShare))
}

// upToDate reports whether a query must see the latest changes of other replicas.
func upToDate(q *cellv1.Query) bool { return q.GetUpToDate() && q.GetTableVersion() == "" }

// catchUp brings the table up to date and reports whether it succeeded. It takes at most half of the
// time left for the call; if it fails, the query uses the table as it is.
func (c *Cell) catchUp(ctx context.Context) bool {
	limit := replica.MaxBehind
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return c.journal.CatchUp(ctx) == nil
}

// search finds the hosts for a query while the table is being loaded.
func (c *Cell) search(ctx context.Context, in *cellv1.Query) (proposals.Version, string, error) {
	q, _, _, err := c.shapes.QueryOf(in)
	if err != nil {
		return proposals.Version{}, "", err
	}
	return c.table.Cold.Find(ctx, q)
}

// propose answers one query. The claims in the answer are always the newest, whatever the table's
// version: they say what the request already has.
func (c *Cell) propose(ctx context.Context, at proposals.Version, name string, in *cellv1.Query) (*cellv1.Proposal, error) {
	out, consumers, err := c.shapes.Propose(ctx, c.versions, at, name, in)
	if err != nil {
		return nil, err
	}
	claims, err := c.claimsOf(ctx, consumers)
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		out.Claims = append(out.Claims, claimOf(c.cfg.Name, claim))
		out.ClaimOrigins = append(out.ClaimOrigins, originOf(claim))
	}
	return out, nil
}

// claimsOf returns the live claims of consumers: from the rows in memory, or from the shard while the
// table is being loaded.
func (c *Cell) claimsOf(ctx context.Context, consumers []string) ([]*shard.Claim, error) {
	if len(consumers) == 0 || !c.loading() {
		return c.rows.ClaimsOfConsumers(consumers), nil
	}
	page, err := c.store.FindClaims(ctx, shard.ClaimQuery{ConsumerUUIDs: consumers, Limit: maxClaims * len(consumers)})
	if err != nil {
		return nil, replica.StoreFault(err)
	}
	return page.Claims, nil
}

// maxClaims is how many live claims a consumer has at most: one, and a move of it.
const maxClaims = 2
