package cellclient

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cellgate/internal/fault"
	"cellgate/internal/suggest"
)

// Reply is a cell's answer to a call that went to several.
type Reply[T any] struct {
	Cell *Cell
	Got  T
	Err  error
}

// AskAll asks cells at once and waits for all of them; each call has its own
// budget. Replies are in the order of cells.
func AskAll[T any](ctx context.Context, list []*Cell, ask func(context.Context, *Cell) (T, error)) []Reply[T] {
	replies := make([]Reply[T], len(list))
	var all sync.WaitGroup
	for i, c := range list {
		all.Go(func() {
			got, err := ask(ctx, c)
			replies[i] = Reply[T]{Cell: c, Got: got, Err: err}
		})
	}
	all.Wait()
	return replies
}

// Search asks cells at once for what one of them has, and waits for all until a
// reply has it; for the others then until patience has passed since the start, and
// errNotAwaited stands where nothing came. Each call has its own budget, which a
// cell that does not answer has to its end although nobody waits: so it counts for
// the breaker like any other.
func Search[T any](ctx context.Context, cs *Cells, list []*Cell, patience time.Duration, has func(T) bool, ask func(context.Context, *Cell) (T, error)) []Reply[T] {
	type arrived struct {
		at int
		Reply[T]
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
	replies, in := make([]Reply[T], len(list)), make(chan arrived, len(list))
	var left atomic.Int64
	left.Store(int64(len(list)))
	for i, c := range list {
		replies[i] = Reply[T]{Cell: c, Err: errNotAwaited}
		cs.Tasks.Go(func() {
			got, err := ask(calls, c)
			in <- arrived{i, Reply[T]{Cell: c, Got: got, Err: err}}
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	var over <-chan time.Time
	for n := 0; n < len(list); n++ {
		select {
		case r := <-in:
			replies[r.at] = r.Reply
			if r.Err == nil && over == nil && has(r.Got) {
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

// Selected gives the cells that a call is about: the named one, else all,
// disabled ones too.
func (cs *Cells) Selected(name string) ([]*Cell, error) {
	if name == "" {
		return cs.All, nil
	}
	c := cs.Named(name)
	if c == nil {
		return nil, fault.Invalid("cell", "%s", cs.NoCell(name))
	}
	return []*Cell{c}, nil
}

// NoCell says that there is no cell of a name, and which may be meant.
func (cs *Cells) NoCell(name string) string {
	const most = 10
	names := cs.Names()
	like := suggest.MeantOf(name, names, 3)
	if n := len(names); n > most {
		names = append(names[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Sprintf("there is no cell %q; the cells are %s%s", name, strings.Join(names, ", "), like)
}

func (cs *Cells) Names() []string {
	var names []string
	for _, c := range cs.All {
		names = append(names, c.Name())
	}
	return names
}

// NotFound gives the error of a search that found nothing: NOT_FOUND when every
// cell answered, CELL_UNAVAILABLE when it may be in one that did not, OVERLOADED when
// such a one has too much to do.
func NotFound[T any](replies []Reply[T], what string) error {
	var missing, names []string
	var errs []error
	for _, r := range replies {
		if r.Err != nil {
			errs = append(errs, r.Err)
			missing = append(missing, r.Cell.Name()+" ("+ReasonOf(r.Err)+")")
			names = append(names, r.Cell.Name())
		}
	}
	if e := Overloaded(errs, "%s is not in the cells that answered; these did not: %s", what, strings.Join(missing, "; ")); e != nil {
		return e.With("cells", strings.Join(names, ","))
	}
	if len(missing) > 0 {
		return fault.New(fault.CellUnavailable, "%s is not in the cells that answered; these did not: %s", what, strings.Join(missing, "; ")).
			With("cells", strings.Join(names, ","))
	}
	return fault.New(fault.NotFound, "there is no %s", what)
}
