package cell

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// ProposeBatch answers each query from one version of the table: the newest at
// the start of the call, or the one the query names; while the table is loaded, from
// one of the hosts that the shard finds for it. A query that fails does so
// alone; all do while the shard does not commit, since what is proposed could not
// be claimed. The whole replica computes at most GOMAXPROCS proposals at once.
func (s *scheduler) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	if err := s.placing(); err != nil {
		return nil, err
	}
	queries := req.GetQueries()
	s.tel.Asked(len(queries))
	loading, workers := s.loading(), cap(s.slots)
	var newest version
	name := ""
	if loading {
		workers = len(queries) // they wait for the shard
	} else {
		if err := s.follower.caughtUp(ctx); err != nil {
			return nil, err
		}
		newest.table, name = s.versions.newest()
	}
	out := make([]*cellv1.Proposal, len(queries))
	one := func(ctx context.Context, i int) error {
		under, span := s.tel.Propose(ctx, queries[i].GetTraceParent())
		var failed error
		defer func() { span.End(cmp.Or(failed, ctx.Err())) }()
		at, name := newest, name
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
			return ctx.Err()
		}
		defer func() { <-s.slots }()
		if err := ctx.Err(); err != nil {
			return err
		}
		var p *cellv1.Proposal
		if failed == nil {
			began := time.Now()
			p, failed = s.propose(ctx, at, name, queries[i])
			s.tel.Proposed(time.Since(began))
		}
		if loading {
			s.tel.Cold(p.GetCut(), failed)
		}
		if failed != nil {
			p = &cellv1.Proposal{Failure: failureOf(failed)}
		}
		span.Int(telemetry.AttrHosts, int(p.GetHosts()))
		span.Int(telemetry.AttrPassed, int(p.GetPassed()))
		span.Text(telemetry.AttrVersion, p.GetTableVersion())
		out[i] = p
		return nil
	}
	if len(queries) == 1 {
		if err := one(ctx, 0); err != nil {
			return nil, err
		}
		return &cellv1.ProposeBatchResponse{Proposals: out}, nil
	}
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	some := func() error {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(queries) {
				return nil
			}
			if err := one(ctx, i); err != nil {
				return err
			}
		}
	}
	for range min(len(queries), workers) - 1 {
		g.Go(some)
	}
	err := some()
	if failed := g.Wait(); failed != nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return &cellv1.ProposeBatchResponse{Proposals: out}, nil
}

// search finds the hosts for a query while the table is loaded.
func (c *Cell) search(ctx context.Context, in *cellv1.Query) (version, string, error) {
	q, _, _, err := c.shapes.queryOf(in)
	if err != nil {
		return version{}, "", err
	}
	return c.cold.find(ctx, q)
}

// propose answers one query. The claims are the newest, whatever the version:
// they say what a request has already.
func (c *Cell) propose(ctx context.Context, at version, name string, in *cellv1.Query) (*cellv1.Proposal, error) {
	q, asked, consumers, err := c.shapes.queryOf(in)
	if err != nil {
		return nil, err
	}
	if in.GetTableVersion() != "" {
		name = in.GetTableVersion()
		if at, err = c.versions.at(name); err != nil {
			return nil, err
		}
	}
	found, err := c.rank(asked, at, q)
	if err != nil {
		return nil, err
	}
	claims, err := c.claimsOf(ctx, consumers)
	if err != nil {
		return nil, err
	}
	out := proposalOf(found, in.GetColumns())
	out.TableVersion, out.Cut = name, at.part != nil && at.part.more
	for _, claim := range claims {
		out.Claims = append(out.Claims, claimOf(c.cfg.Name, claim))
		out.ClaimOrigins = append(out.ClaimOrigins, originOf(claim))
	}
	return out, nil
}

// rank asks a version. What is remembered of a shape is about the whole table.
func (c *Cell) rank(asked *shape, at version, q *schedule.Query) (*schedule.Proposal, error) {
	if at.part == nil {
		found, err := c.shapes.memories.propose(asked, at.table, q)
		if err != nil {
			return nil, fault.New(fault.InvalidRequest, "%v", err)
		}
		return found, nil
	}
	found, err := at.table.Propose(q)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "%v", err)
	}
	return found, at.part.complete(found)
}

// claimsOf gives the live claims of consumers: of the rows that are kept, or of the
// shard while they are loaded.
func (c *Cell) claimsOf(ctx context.Context, consumers []string) ([]*shard.Claim, error) {
	if len(consumers) == 0 || !c.loading() {
		return c.rows.claimsOf(consumers), nil
	}
	page, err := c.store.FindClaims(ctx, shard.ClaimQuery{ConsumerUUIDs: consumers, Limit: maxClaims * len(consumers)})
	if err != nil {
		return nil, storeFault(err)
	}
	return page.Claims, nil
}

// maxClaims is how many live claims a consumer has at most: one, and one that moves it.
const maxClaims = 2

// failureOf is an error as one item of a batch carries it.
func failureOf(err error) *cellv1.Failure {
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind == fault.Internal {
		return &cellv1.Failure{Reason: string(fault.Internal), Message: "internal error"}
	}
	return &cellv1.Failure{Reason: string(f.Kind), Message: f.Message}
}
