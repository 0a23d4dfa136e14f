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
)

// ProposeBatch answers each query from one version of the table: the newest at
// the start of the call, or the one the query names. A query that fails does so
// alone; all do while the shard does not commit, since what is proposed could not
// be claimed. The whole replica computes at most GOMAXPROCS proposals at once.
func (s *scheduler) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	if err := s.placing(); err != nil {
		return nil, err
	}
	if err := s.follower.caughtUp(ctx); err != nil {
		return nil, err
	}
	newest, name := s.versions.newest()
	queries := req.GetQueries()
	s.tel.Asked(len(queries))
	out := make([]*cellv1.Proposal, len(queries))
	one := func(ctx context.Context, i int) error {
		under, span := s.tel.Propose(ctx, queries[i].GetTraceParent())
		var failed error
		defer func() { span.End(cmp.Or(failed, ctx.Err())) }()
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
		began := time.Now()
		p, err := s.propose(newest, name, queries[i])
		s.tel.Proposed(time.Since(began))
		if err != nil {
			failed, p = err, &cellv1.Proposal{Failure: failureOf(err)}
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
	for range min(len(queries), cap(s.slots)) - 1 {
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

// propose answers one query. The claims are the newest, whatever the version:
// they say what a request has already.
func (c *Cell) propose(table *schedule.Table, name string, in *cellv1.Query) (*cellv1.Proposal, error) {
	q, asked, consumers, err := c.shapes.queryOf(in)
	if err != nil {
		return nil, err
	}
	if in.GetTableVersion() != "" {
		name = in.GetTableVersion()
		if table, err = c.versions.at(name); err != nil {
			return nil, err
		}
	}
	found, err := c.shapes.memories.propose(asked, table, q)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "%v", err)
	}
	out := proposalOf(found, in.GetColumns())
	out.TableVersion = name
	for _, claim := range c.rows.claimsOf(consumers) {
		out.Claims = append(out.Claims, claimOf(c.cfg.Name, claim))
		out.ClaimOrigins = append(out.ClaimOrigins, originOf(claim))
	}
	return out, nil
}

// failureOf is an error as one item of a batch carries it.
func failureOf(err error) *cellv1.Failure {
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind == fault.Internal {
		return &cellv1.Failure{Reason: string(fault.Internal), Message: "internal error"}
	}
	return &cellv1.Failure{Reason: string(f.Kind), Message: f.Message}
}
