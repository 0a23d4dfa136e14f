package gateway

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/fault"
)

// reply is a cell's answer to a call that went to several.
type reply[T any] struct {
	cell *cell
	got  T
	err  error
}

// askAll asks cells at once and waits for all of them; each call has its own
// budget. Replies are in the order of cells.
func askAll[T any](ctx context.Context, cells []*cell, ask func(context.Context, *cell) (T, error)) []reply[T] {
	replies := make([]reply[T], len(cells))
	var all sync.WaitGroup
	for i, c := range cells {
		all.Go(func() {
			got, err := ask(ctx, c)
			replies[i] = reply[T]{cell: c, got: got, err: err}
		})
	}
	all.Wait()
	return replies
}

// search asks cells at once for what one of them has, and waits for all until a
// reply has it; for the others then until patience has passed since the start, and
// errNotAwaited stands where nothing came. Each call has its own budget, which a
// cell that does not answer has to its end although nobody waits: so it counts for
// the breaker like any other.
func search[T any](ctx context.Context, g *Gateway, cells []*cell, patience time.Duration, has func(T) bool, ask func(context.Context, *cell) (T, error)) []reply[T] {
	type arrived struct {
		at int
		reply[T]
	}
	began := time.Now()
	// Who leaves while it is waited for ends the calls; the end of the request does not.
	calls := context.WithoutCancel(ctx)
	var cancel context.CancelFunc
	if until, ok := ctx.Deadline(); ok {
		calls, cancel = context.WithDeadline(calls, until)
	} else {
		calls, cancel = context.WithCancel(calls)
	}
	attached := context.AfterFunc(ctx, cancel)
	replies, in := make([]reply[T], len(cells)), make(chan arrived, len(cells))
	var left atomic.Int64
	left.Store(int64(len(cells)))
	for i, c := range cells {
		replies[i] = reply[T]{cell: c, err: errNotAwaited}
		g.tasks.Go(func() {
			got, err := ask(calls, c)
			in <- arrived{i, reply[T]{cell: c, got: got, err: err}}
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	var over <-chan time.Time
	for n := 0; n < len(cells); n++ {
		select {
		case r := <-in:
			replies[r.at] = r.reply
			if r.err == nil && over == nil && has(r.got) {
				t := time.NewTimer(patience - time.Since(began))
				defer t.Stop()
				over = t.C
			}
		case <-over:
			attached()
			return replies
		}
	}
	attached()
	return replies
}

// errNotAwaited is of a call whose answer was not needed any more.
var errNotAwaited = fault.New(fault.CellUnavailable, "was not waited for")

// cellsFor gives the cells that a call is about: the named one, else all,
// disabled ones too.
func (g *Gateway) cellsFor(name string) ([]*cell, error) {
	if name == "" {
		return g.cells, nil
	}
	c := g.cellNamed(name)
	if c == nil {
		return nil, fault.Invalid("cell", "there is no cell %q; the cells are %s", name, strings.Join(g.cellNames(), ", "))
	}
	return []*cell{c}, nil
}

func (g *Gateway) cellNames() []string {
	var names []string
	for _, c := range g.cells {
		names = append(names, c.cfg.Name)
	}
	return names
}

// notFound gives the error of a search that found nothing: NOT_FOUND when every
// cell answered, CELL_UNAVAILABLE when it may be in one that did not, OVERLOADED when
// such a one has too much to do.
func notFound[T any](replies []reply[T], what string) error {
	var missing, names []string
	var errs []error
	for _, r := range replies {
		if r.err != nil {
			errs = append(errs, r.err)
			missing = append(missing, r.cell.cfg.Name+" ("+reasonOf(r.err)+")")
			names = append(names, r.cell.cfg.Name)
		}
	}
	if e := tooMuch(errs, "%s is not in the cells that answered; these did not: %s", what, strings.Join(missing, "; ")); e != nil {
		return e.With("cells", strings.Join(names, ","))
	}
	if len(missing) > 0 {
		return fault.New(fault.CellUnavailable, "%s is not in the cells that answered; these did not: %s", what, strings.Join(missing, "; ")).
			With("cells", strings.Join(names, ","))
	}
	return fault.New(fault.NotFound, "there is no %s", what)
}
