package cellclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Replica is one scheduler of a cell: its connection, its breaker, and its queues of
// proposals, of operations and of searches for claims.
type Replica struct {
	cells            *Cells
	cell             *Cell
	Addr             string
	conn             *grpc.ClientConn
	client           cellv1.CellSchedulerClient
	placement        cellv1.CellPlacementClient
	breaker          *breaker
	breakerTelemetry telemetry.Breaker
	// upToDate takes the queries before which the replica reads its journal, in calls of their own, so that no other
	// query waits for that. queries takes all others.
	queries, upToDate batcher[*cellv1.Query, Answer]
	operations        batcher[[]*cellv1.ClaimOp, committed]
	searches          batcher[string, foundClaim]
	// wrongCell says which other cell answers at the address; nil if the configured cell
	// does, or none has answered yet.
	wrongCell atomic.Pointer[string]
	// loading: by its last summary, the replica still loads its table.
	loading atomic.Bool
	// awaits: by its last summary, the replica answers claims only after their hosts' verdicts.
	awaits atomic.Bool
	// watched is when the replica was last probed, in ns of the gateway's clock; 0 before the
	// first probe.
	watched atomic.Int64
}

func newReplica(c *Cell, addr string, conn *grpc.ClientConn, cs *Cells) *Replica {
	calls := &admitted{ClientConnInterface: conn, cell: c, replica: addr, log: cs.log}
	r := &Replica{
		cells: cs, cell: c, Addr: addr, breakerTelemetry: c.Telemetry.Breaker(addr), conn: conn,
		client: cellv1.NewCellSchedulerClient(calls), placement: cellv1.NewCellPlacementClient(calls),
	}
	for _, b := range []*batcher[*cellv1.Query, Answer]{&r.queries, &r.upToDate} {
		*b = batcher[*cellv1.Query, Answer]{
			tasks: &cs.Tasks, call: r.proposeBatch, calls: maxBatches, items: maxBatchQueries, bytes: maxBatchBytes,
			sizeOf: func(q *cellv1.Query) (int, int) { return 1, sizeOf(q) },
		}
	}
	r.operations = batcher[[]*cellv1.ClaimOp, committed]{
		tasks: &cs.Tasks, call: r.commitBatch, calls: maxCommits, items: maxOps, bytes: maxOpBytes,
		maxItems: maxQueuedOps, maxBytes: maxQueuedBytes, sizeOf: sizeOfOps,
	}
	r.searches = batcher[string, foundClaim]{
		tasks: &cs.Tasks, call: r.searchBatch, calls: maxBatches, items: maxFound, bytes: maxBatchBytes,
		sizeOf: func(id string) (int, int) { return 1, len(id) },
	}
	r.breaker = newBreaker(cs.Breaker, func(ch change) { cs.breakerChanged(r, ch) })
	return r
}

// enter admits a user's call.
func (r *Replica) enter(k callKind) (*pass, error) {
	if err := r.wrongCellError(); err != nil {
		return nil, err
	}
	return r.breaker.enter(k)
}

// refuses gives the error that enter would give now; nil for none.
func (r *Replica) refuses() error {
	if err := r.wrongCellError(); err != nil {
		return err
	}
	return r.breaker.refuses()
}

func (r *Replica) wrongCellError() error {
	if who := r.wrongCell.Load(); who != nil {
		return fault.Wrap(fault.CellUnavailable, ErrNotSent, "%s", *who)
	}
	return nil
}

// WrongCell says which other cell answers at the addresses of the cell; "" if a replica is of
// the configured cell, or not known yet.
func (c *Cell) WrongCell() string {
	first := ""
	for _, r := range c.Replicas {
		who := r.wrongCell.Load()
		if who == nil {
			return ""
		}
		first = cmp.Or(first, *who)
	}
	return first
}

// Unusable says why no replica of the cell may be asked now; nil if one may. A call that is
// sent nevertheless fails at once for that reason.
func (c *Cell) Unusable() error {
	var reasons []error
	for _, r := range c.Replicas {
		err := r.refuses()
		if err == nil {
			return nil
		}
		reasons = append(reasons, err)
	}
	return c.noneUsable(reasons)
}

// enterOne admits a user's call at the first replica that may be asked, from index from of
// order on. It gives that replica's index.
func (c *Cell) enterOne(order []*Replica, k callKind, from int) (int, *pass, error) {
	var reasons []error
	for i := from; i < len(order); i++ {
		p, err := order[i].enter(k)
		if err == nil {
			return i, p, nil
		}
		reasons = append(reasons, err)
	}
	return 0, nil, c.noneUsable(reasons)
}

// noneUsable is the error when every replica refused.
func (c *Cell) noneUsable(reasons []error) error {
	if len(reasons) == 1 {
		return reasons[0]
	}
	texts := make([]string, len(reasons))
	for i, err := range reasons {
		texts[i] = fmt.Sprintf("replica %d: %s", i+1, ReasonOf(err))
	}
	return fault.Wrap(fault.CellUnavailable, ErrNotSent, "no replica can be asked: %s", strings.Join(texts, "; "))
}

// callOptions say how a call is sent.
type callOptions struct {
	// budget is how long it may take in all. fullBudget is what a replica is entitled to:
	// with less, being late is no failure of the replica.
	budget, fullBudget time.Duration
	// mayRepeat: the call may go to another replica if its outcome is unknown.
	mayRepeat bool
	// readOnly: the call changes nothing, so it is abandoned when the breaker opens.
	readOnly bool
	kind     callKind
	// order is the order in which the replicas are asked; nil for the default order.
	order []*Replica
}

// try does a call at the first replica that may be asked. If the call may be repeated and has
// taken half of its budget, it goes to the next replica as well: see hedge.go.
func try[T any](ctx context.Context, c *Cell, a callOptions, once func(context.Context, *Replica, *pass) (T, error)) (T, error) {
	c.retries.earn()
	if a.order == nil {
		a.order = c.InOrder("")
	}
	if !a.mayRepeat || len(a.order) == 1 {
		return tryInOrder(ctx, c, a, once)
	}
	return hedged(ctx, c, a, once)
}

// tryInOrder does a call at the first replica that may be asked. After the call it decides
// whose fault a failure is:
//
//   - If the caller gave up, or its own deadline is shorter than the budget, the failure is not the replica's.
//   - A refusal is an answer. But if the replica does not admit this gateway, the next one is asked. So it is if the
//     replica's breaker opens during a call that changes nothing.
//   - Any other failure counts for the breaker. The call goes to the next replica if the error table allows it, the
//     call may be repeated, and both time and retry budget are left.
func tryInOrder[T any](ctx context.Context, c *Cell, a callOptions, once func(context.Context, *Replica, *pass) (T, error)) (T, error) {
	var none T
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, a.budget)
	defer cancel()
	var failure error
	for from := 0; ; {
		i, p, err := c.enterOne(a.order, a.kind, from)
		if err != nil {
			if failure != nil {
				err = failure
			}
			return none, err
		}
		t := timing{budget: a.budget, fair: a.fullBudget, given: a.budget}
		if failure != nil {
			t.given -= time.Since(began)
		}
		if until, ok := ctx.Deadline(); ok {
			t.given = min(t.given, time.Until(until))
		}
		got, err := once(within, a.order[i], p)
		if err == nil {
			p.leave(served, nil)
			return got, nil
		}
		unsent := errors.Is(err, ErrNotSent)
		if ctx.Err() != nil {
			p.leave(excused, err)
			if unsent && failure == nil {
				return none, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
			}
			return none, ctx.Err()
		}
		t.took = time.Since(began)
		late := t.took >= a.budget
		// The call was abandoned as if the breaker had refused it.
		leftAlone := a.readOnly && p.breakerOpen.Err() != nil
		switch {
		case late:
			err = tooSlow(err, c, a.budget)
		case leftAlone:
			err = p.b.refused()
		}
		v := judge(err, t)
		p.leave(v, err)
		if v == excused && a.budget < a.fullBudget && !p.b.ailing() && !IsShed(err) {
			err = deadlineTooShort(err)
		}
		// These do not use the retry budget. A replica that does not admit this gateway did
		// nothing with the call. A call that the breaker's opening ended would have gone to
		// the next replica, had it come later.
		free := leftAlone || errors.Is(err, errNotAdmitted)
		again := free || v == failed && a.mayRepeat && rpc.MayRepeat(fault.KindOf(err))
		if late || !again || i+1 >= len(a.order) || !free && !c.retries.spend() {
			if unsent && failure != nil {
				err = failure // the earlier attempt was sent, and may have been done
			}
			return none, err
		}
		failure, from = err, i+1
	}
}

// deadlineTooShort marks the error of a replica that is well and had less time than its
// budget.
func deadlineTooShort(err error) error {
	return fault.Wrap(fault.CellUnavailable, errors.Join(ErrDeadlineTooShort, err), "%s", ReasonOf(err))
}
