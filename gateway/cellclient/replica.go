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

// Replica is one scheduler of a cell: its connection, its breaker and its queues
// of proposals, of operations and of claims to find.
type Replica struct {
	cell             *Cell
	Addr             string
	conn             *grpc.ClientConn
	client           cellv1.CellSchedulerClient
	placement        cellv1.CellPlacementClient
	breaker          *breaker
	proposer         proposer
	committer        committer
	finder           finder
	breakerTelemetry *telemetry.Breaker
	// wrongCell says why what answers at the address is not the configured cell;
	// nil when it is, or is not known yet.
	wrongCell atomic.Pointer[string]
	// loading: by its last summary, the replica loads its table.
	loading atomic.Bool
	// awaits: by its last summary, the replica answers claims after their hosts' verdicts.
	awaits atomic.Bool
	// watched is when its prober last came around, in ns of the gateway's clock;
	// 0 before the first time.
	watched atomic.Int64
}

func newReplica(c *Cell, addr string, conn *grpc.ClientConn, cs *Cells) *Replica {
	calls := &admitted{ClientConnInterface: conn, cell: c, replica: addr, log: cs.log}
	r := &Replica{
		cell: c, Addr: addr, breakerTelemetry: c.Telemetry.Breaker(addr), conn: conn,
		client: cellv1.NewCellSchedulerClient(calls), placement: cellv1.NewCellPlacementClient(calls),
	}
	r.proposer.init(r, cs)
	r.committer.init(r, cs)
	r.finder.init(r, cs)
	r.breaker = newBreaker(cs.cfg.Breaker, func(ch change) { cs.breakerChanged(r, ch) })
	return r
}

// enter lets a user's call in.
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

// WrongCell says why what answers for the cell is another one; "" when a replica is
// the configured one, or not known yet.
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

// Unusable says why no replica of the cell may be asked now; nil when one may.
// A call that is sent all the same fails for that reason, at once.
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

// enterOne lets a user's call in at the first of the cell's replicas that may be
// asked, from index from of order on.
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

// callOptions say how a call is tried.
type callOptions struct {
	// budget is how long it may take in all; fullBudget is what the replica is given when the
	// caller's deadline allows it. With less, being late is no failure of the replica.
	budget, fullBudget time.Duration
	// mayRepeat: it may go to another replica when its outcome is unknown.
	mayRepeat bool
	// readOnly: it changes nothing, so nobody waits for it when the breaker opens.
	readOnly bool
	kind     callKind
	// order is in which the replicas are asked; nil for none in particular.
	order []*Replica
}

// try does a call at the first replica that may be asked, or, when that takes half
// of the budget and the call may be repeated, at the next one too: see hedge.go.
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

// tryInOrder does a call at the first replica that may be asked. Whose fault a failure
// is, is decided here, after the call:
//
//   - the caller's end, and a deadline of its own that is shorter than the budget,
//     are not the replica's;
//   - a refusal is an answer, but that of a replica which does not admit this gateway:
//     then the next one is asked; so it is when the replica's breaker opens while a
//     call that changes nothing is under way at it;
//   - what is left counts for the breaker, and goes to the next replica when the
//     error table allows it, the call may be repeated, time is left and the retry
//     budget has some left too.
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
		// As if the replica had not let it in.
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
		// A replica that does not admit this gateway did nothing with the call, and
		// loads nobody by the next: that is no retry. Nor is a call that would have gone
		// to the next one, had it come later.
		free := leftAlone || errors.Is(err, errNotAdmitted)
		again := free || v == failed && a.mayRepeat && rpc.MayRepeat(fault.KindOf(err))
		if late || !again || i+1 >= len(a.order) || !free && !c.retries.spend() {
			if unsent && failure != nil {
				err = failure // what was sent before may have been done
			}
			return none, err
		}
		failure, from = err, i+1
	}
}

// deadlineTooShort marks the error of a replica that is well and was given less than its
// budget.
func deadlineTooShort(err error) error {
	return fault.Wrap(fault.CellUnavailable, errors.Join(ErrDeadlineTooShort, err), "%s", ReasonOf(err))
}
