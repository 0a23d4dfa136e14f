package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// cell is a configured cell: its replicas and what is known of it. Safe for
// concurrent use.
type cell struct {
	cfg CellConfig
	// replicas in the order to prefer them where nothing else says; see inOrder.
	replicas []*replica
	// proposeBudget and claimBudget are what a replica is given when the caller's
	// deadline does not say less.
	proposeBudget, claimBudget time.Duration
	retries                    retryBudget
	// summary is the last one read, of any replica that has its table; unloaded of any
	// that loads it. nil before the first.
	summary, unloaded atomic.Pointer[summary]
	tel               *telemetry.Link
	// gate is that of a cell under upgrade; nil for any other.
	gate *gate
}

func newCell(cfg CellConfig, dial func(string) (*grpc.ClientConn, error), parts Legacy, g *Gateway) (*cell, error) {
	c := &cell{cfg: cfg, tel: g.tel.Link(cfg.Name), proposeBudget: g.cfg.ProposeBudget, claimBudget: g.cfg.ClaimBudget}
	for _, target := range cfg.Replicas {
		conn, err := dial(target)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("cell %s: replica %q: %w", cfg.Name, target, err)
		}
		c.replicas = append(c.replicas, newReplica(c, target, conn, g))
	}
	if cfg.Legacy != nil {
		c.gate = newGate(c, *cfg.Legacy, parts, g)
	}
	return c, nil
}

func (c *cell) close() {
	for _, r := range c.replicas {
		// The connection's own state is all that could fail here.
		_ = r.conn.Close()
	}
}

// uuid is the cell's uuid: the configured one, or the one it gave; "" when
// neither is known.
func (c *cell) uuid() string {
	if c.cfg.UUID != "" {
		return c.cfg.UUID
	}
	if s := c.heard(); s != nil {
		return s.GetCellUuid()
	}
	return ""
}

// proposeTime is what a replica of the cell is given to answer a query: while all that
// may be asked load their tables, as long as for a claim.
func (c *cell) proposeTime() time.Duration {
	for _, r := range c.replicas {
		if !r.loading.Load() && r.refuses() == nil {
			return c.proposeBudget
		}
	}
	for _, r := range c.replicas {
		if r.loading.Load() && r.refuses() == nil {
			return max(c.proposeBudget, c.claimBudget)
		}
	}
	return c.proposeBudget
}

// call does one call to the cell within budget. An error is a *fault.Error, or
// the caller's own context error when it is the caller who gave up; errNotSent is
// in its chain when the call was not sent. What is repeatable goes to the next
// replica when one fails and time is left.
func call[Req, Resp any](ctx context.Context, c *cell, budget time.Duration, req *Req,
	method func(cellv1.CellSchedulerClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	return callFor(ctx, c, "", budget, req, method)
}

// callFor is call at the replicas in their order for a key; see inOrder.
func callFor[Req, Resp any](ctx context.Context, c *cell, key string, budget time.Duration, req *Req,
	method func(cellv1.CellSchedulerClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	a := callOptions{budget: budget, fullBudget: c.claimBudget, mayRepeat: repeatable(req), readOnly: reads(req), kind: kindOf(req), order: c.inOrder(key)}
	return try(ctx, c, a, func(ctx context.Context, r *replica, p *pass) (*Resp, error) {
		if a.readOnly {
			var end func()
			ctx, end = p.while(ctx)
			defer end()
		}
		began := time.Now()
		resp, err := method(r.client, ctx, req)
		c.tel.Called(ctx, req, time.Since(began), err)
		return resp, err
	})
}

// tooSlow is the error of a cell that did not answer within budget.
func tooSlow(err error, c *cell, budget time.Duration) error {
	return fault.Wrap(fault.CellUnavailable, err, "%s", c.tooSlow(budget))
}

func (c *cell) tooSlow(budget time.Duration) string {
	return fmt.Sprintf("cell %s did not answer within %s", c.cfg.Name, budget.Round(time.Millisecond))
}

// reasonOf gives the text of an error that a caller may see.
func reasonOf(err error) string {
	var e *fault.Error
	switch {
	case errors.As(err, &e) && e.Kind == fault.Internal:
		return "internal error in the cell"
	case errors.As(err, &e):
		return e.Message
	case errors.Is(err, context.DeadlineExceeded):
		return "the request's deadline passed first"
	case errors.Is(err, context.Canceled):
		return "the caller gave up first"
	}
	return "internal error"
}
