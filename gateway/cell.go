package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// cell is a configured cell: its connections and what is known of it. Safe for
// concurrent use.
type cell struct {
	cfg      CellConfig
	replicas []replica
	// current is the index of the replica to ask: the first, until it does not
	// answer, then the next one.
	current atomic.Int32
	// summary is the last one read; nil before the first.
	summary atomic.Pointer[summary]
	// stranger says why the cell at the address is not the configured one; nil
	// when it is, or is not known yet.
	stranger atomic.Pointer[string]
	// watched is when the directory last came around to the cell, in ns of the
	// gateway's clock; 0 before the first time.
	watched  atomic.Int64
	proposer proposer
}

type replica struct {
	conn   *grpc.ClientConn
	client cellv1.CellSchedulerClient
}

func newCell(cfg CellConfig, dial func(string) (*grpc.ClientConn, error), g *Gateway) (*cell, error) {
	c := &cell{cfg: cfg}
	c.proposer = proposer{cell: c, life: g.life, tasks: &g.tasks}
	for _, target := range cfg.Replicas {
		conn, err := dial(target)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("cell %s: replica %q: %w", cfg.Name, target, err)
		}
		c.replicas = append(c.replicas, replica{conn: conn, client: cellv1.NewCellSchedulerClient(conn)})
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
	if s := c.summary.Load(); s != nil {
		return s.GetCellUuid()
	}
	return ""
}

// call does one call to the cell's current replica within budget. An error is a
// *fault.Error, or the caller's own context error when it is the caller who
// gave up. A replica that is not there is not asked first the next time.
func call[Req, Resp any](ctx context.Context, c *cell, budget time.Duration, req *Req,
	method func(cellv1.CellSchedulerClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	at := c.current.Load()
	resp, err := method(c.replicas[at].client, bounded, req)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if time.Since(began) >= budget {
		err = fault.Wrap(fault.CellUnavailable, err, "%s", c.tooSlow(budget))
	}
	if fault.KindOf(err) == fault.CellUnavailable {
		c.current.CompareAndSwap(at, (at+1)%int32(len(c.replicas)))
	}
	return nil, err
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
