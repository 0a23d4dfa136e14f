package cellclient

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

// Cell is a configured cell: its replicas and its last summaries. Safe for concurrent use.
type Cell struct {
	cfg CellConfig
	// Replicas are in the order of the configuration, which counts where nothing else does; see InOrder.
	Replicas []*Replica
	// proposeBudget and ClaimBudget bound a replica's answer to a query and to a claim,
	// unless the caller's deadline is shorter.
	proposeBudget, ClaimBudget time.Duration
	retries                    retryBudget
	// summary is the last one from a replica that has its table, unloaded the last from a
	// replica that still loads it. Each is nil before the first.
	summary, unloaded atomic.Pointer[Summary]
	Telemetry         telemetry.Link
}

func newCell(cfg CellConfig, dial func(string) (*grpc.ClientConn, error), cs *Cells) (*Cell, error) {
	c := &Cell{cfg: cfg, Telemetry: cs.tel.Link(cfg.Name), proposeBudget: cs.ProposeBudget, ClaimBudget: cs.ClaimBudget}
	for _, target := range cfg.Replicas {
		conn, err := dial(target)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("cell %s: replica %q: %w", cfg.Name, target, err)
		}
		c.Replicas = append(c.Replicas, newReplica(c, target, conn, cs))
	}
	return c, nil
}

// Name is the cell's name in the configuration.
func (c *Cell) Name() string { return c.cfg.Name }

// Disabled reports whether nothing new is placed in the cell.
func (c *Cell) Disabled() bool { return c.cfg.Disabled }

// Addresses are the addresses of the cell's replicas.
func (c *Cell) Addresses() []string { return c.cfg.Replicas }

func (c *Cell) close() {
	for _, r := range c.Replicas {
		// Close only fails for a connection that is already closed.
		_ = r.conn.Close()
	}
}

// UUID is the cell's configured uuid, else the one in its summary; "" if neither is known.
func (c *Cell) UUID() string {
	if c.cfg.UUID != "" {
		return c.cfg.UUID
	}
	if s := c.NewestSummary(); s != nil {
		return s.GetCellUuid()
	}
	return ""
}

// ProposeBudget bounds a replica's answer to a query. While all replicas that may be asked
// load their tables, it is at least ClaimBudget.
func (c *Cell) ProposeBudget() time.Duration {
	for _, r := range c.Replicas {
		if !r.loading.Load() && r.refuses() == nil {
			return c.proposeBudget
		}
	}
	for _, r := range c.Replicas {
		if r.loading.Load() && r.refuses() == nil {
			return max(c.proposeBudget, c.ClaimBudget)
		}
	}
	return c.proposeBudget
}

// Call does one call to the cell within budget. An error is a *fault.Error, or ctx's own
// error if the caller gave up; ErrNotSent is in its chain if the call was not sent. If a
// replica fails and time is left, a repeatable call goes to the next replica.
func Call[Req, Resp any](ctx context.Context, c *Cell, budget time.Duration, req *Req,
	method func(cellv1.CellSchedulerClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	return CallFor(ctx, c, "", budget, req, method)
}

// CallFor is Call with the replicas in their order for a key; see InOrder.
func CallFor[Req, Resp any](ctx context.Context, c *Cell, key string, budget time.Duration, req *Req,
	method func(cellv1.CellSchedulerClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	return callReplica(ctx, c, key, budget, req, func(ctx context.Context, r *Replica) (*Resp, error) { return method(r.client, ctx, req) })
}

func callReplica[Req, Resp any](ctx context.Context, c *Cell, key string, budget time.Duration, req *Req, once func(context.Context, *Replica) (*Resp, error)) (*Resp, error) {
	a := callOptions{budget: budget, fullBudget: c.ClaimBudget, mayRepeat: repeatable(req), readOnly: reads(req), kind: kindOf(req), order: c.InOrder(key)}
	return try(ctx, c, a, func(ctx context.Context, r *Replica, p *pass) (*Resp, error) {
		if a.readOnly {
			var end func()
			ctx, end = p.while(ctx)
			defer end()
		}
		began := time.Now()
		resp, err := once(ctx, r)
		c.Telemetry.Called(ctx, req, time.Since(began), err)
		return resp, err
	})
}

// ErrTooSlow is in the chain of the error of a cell that did not answer within its budget.
var ErrTooSlow = errors.New("no answer in time")

// tooSlow is the error of a cell that did not answer within budget.
func tooSlow(err error, c *Cell, budget time.Duration) error {
	return fault.Wrap(fault.CellUnavailable, fmt.Errorf("%w: %w", ErrTooSlow, err), "%s", c.tooSlow(budget))
}

func (c *Cell) tooSlow(budget time.Duration) string {
	return fmt.Sprintf("cell %s did not answer within %s", c.Name(), budget.Round(time.Millisecond))
}

// ReasonOf gives the text of an error that a caller may see.
func ReasonOf(err error) string {
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

// StepBudget is how long one step may take: budget, but at most half of the time that the
// request has left. So a request can still act after a cell did not answer.
func StepBudget(ctx context.Context, budget time.Duration) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return min(budget, time.Until(until)/2)
	}
	return budget
}

// Pause waits for d, or until ctx ends, whose error it then gives.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CallPlacement is Call for the cell's part of the Placement API.
func CallPlacement[Req, Resp any](ctx context.Context, c *Cell, budget time.Duration, req *Req,
	method func(cellv1.CellPlacementClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	return callReplica(ctx, c, "", budget, req, func(ctx context.Context, r *Replica) (*Resp, error) { return method(r.placement, ctx, req) })
}
