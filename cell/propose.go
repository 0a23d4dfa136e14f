package cell

import (
	"cmp"
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
	if err := s.placing(); err != nil {
		return nil, err
	}
	queries := req.GetQueries()
	s.tel.Asked(len(queries))
	loading, workers := s.loading(), cap(s.slots)
	var newest proposals.Version
	name, lags := "", false
	var g *shard.Gate
	if loading {
		if !s.table.Follower.KnowsGate() {
			return nil, errLoading()
		}
		workers = len(queries) // they wait for the shard
		g = s.rows.TableGate.Load()
	} else {
		if err := s.journal.AwaitFresh(ctx); err != nil {
			return nil, err
		}
		if lags = s.journal.HasOthers(); lags && slices.ContainsFunc(queries, upToDate) {
			lags = !s.catchUp(ctx)
		}
		g = s.rows.TableGate.Load() // before the table, which is as new then
		newest.Table, name = s.versions.Newest()
	}
	out := make([]*cellv1.Proposal, len(queries))
	call := ctx
	ctx, cancel := beforeEnd(call)
	defer cancel()
	one := func(ctx context.Context, i int) error {
		under, span := s.tel.Propose(ctx, queries[i].GetTraceParent())
		var failed error
		defer func() { span.End(cmp.Or(failed, ctx.Err())) }()
		late := func() error {
			if err := call.Err(); err != nil {
				return err // Nobody waits: the batch is given up.
			}
			failed = fault.New(fault.Overloaded, "the query was not answered in time")
			out[i] = &cellv1.Proposal{Failure: proposals.FailureOf(failed), Gate: gate.MessageState(g)}
			return nil
		}
		at, name := newest, name
		if why := s.table.Imports.WhyUnavailable(g); why != "" {
			failed = fault.New(fault.CellUnavailable, "%s", why)
			out[i] = &cellv1.Proposal{Failure: proposals.FailureOf(failed), Gate: gate.MessageState(g)}
			return nil
		}
		if loading && queries[i].GetTableVersion() == "" {
			_, search := s.tel.Span(under, telemetry.SpanSearch)
			at, name, failed = s.search(ctx, queries[i])
			search.End(failed)
		}
		_, wait := s.tel.Span(under, telemetry.SpanSlot)
		select {
		case s.slots <- struct{}{}:
			wait.End(nil)
		case <-ctx.Done():
			wait.End(ctx.Err())
			return late()
		}
		defer func() { <-s.slots }()
		if ctx.Err() != nil {
			return late()
		}
		var p *cellv1.Proposal
		if failed == nil {
			began := time.Now()
			s.spareNearMisses(queries[i])
			p, failed = s.propose(ctx, at, name, queries[i])
			took := time.Since(began)
			s.tel.Proposed(took)
			s.countNearMisses(queries[i], took)
		}
		if failed != nil && ctx.Err() != nil {
			return late()
		}
		if loading {
			s.tel.Cold(p.GetTruncated(), failed)
		}
		if failed != nil {
			p = &cellv1.Proposal{Failure: proposals.FailureOf(failed)}
		}
		p.Gate, p.MayBeStale = gate.MessageState(g), lags
		span.Int(telemetry.AttrHosts, int(p.GetHosts()))
		span.Int(telemetry.AttrPassed, int(p.GetPassed()))
		span.Text(telemetry.AttrVersion, p.GetTableVersion())
		out[i] = p
		return nil
	}
	if err := proposals.Each(ctx, len(queries), workers, one); err != nil {
		return nil, err
	}
	return &cellv1.ProposeBatchResponse{Proposals: out}, nil
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
