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

// Search asks cells at once for an object that one of them has. It waits for all cells until
// a reply has the object, and from then for the others until patience has passed since the
// start. The replies of the cells still missing then are errNotAwaited. Each call runs to the
// end of its own budget even then, so it counts for the breaker like any other.
func Search[T any](ctx context.Context, cs *Cells, list []*Cell, patience time.Duration, has func(T) bool, ask func(context.Context, *Cell) (T, error)) []Reply[T] {
	type arrived struct {
		at int
		Reply[T]
	}
	began := time.Now()
	// While Search waits, the end of ctx ends the calls; after Search has returned, it does not.
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

// errNotAwaited stands for the reply of a cell whose answer was no longer needed.
var errNotAwaited = fault.New(fault.CellUnavailable, "the answer was no longer needed")

// Selected gives the cells that a call concerns: the named cell, or all cells, disabled ones
// too, if name is empty.
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

// NoCell is the text that there is no cell of a name, with the names that there are and a suggestion.
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

// Missing are cells that a request lacks, and why. The zero value has none.
type Missing struct {
	names, texts []string
	errs         []error
}

// Add adds a cell; err is why it did not answer, nil if it was not asked.
func (m *Missing) Add(c *Cell, err error) {
	text := c.Name()
	if err != nil {
		text += " (" + ReasonOf(err) + ")"
		m.errs = append(m.errs, err)
	}
	m.names, m.texts = append(m.names, c.Name()), append(m.texts, text)
}

// Len is the number of the cells.
func (m *Missing) Len() int { return len(m.names) }

// String lists the cells with their reasons.
func (m *Missing) String() string { return strings.Join(m.texts, "; ") }

// Names lists the names of the cells, separated by commas.
func (m *Missing) Names() string { return strings.Join(m.names, ",") }

// Fault gives OVERLOADED if a cell is overloaded, else CELL_UNAVAILABLE. The cells follow the text.
func (m *Missing) Fault(format string, args ...any) *fault.Error {
	format, args = format+": %s", append(args, m)
	e := Overloaded(m.errs, format, args...)
	if e == nil {
		e = fault.New(fault.CellUnavailable, format, args...)
	}
	return e.With("cells", m.Names())
}

// NotFound gives the error of a search that found nothing: NOT_FOUND if every cell answered, else that of Missing,
// since the object may be in a cell that did not answer.
func NotFound[T any](replies []Reply[T], what string) error {
	var missing Missing
	for _, r := range replies {
		if r.Err != nil {
			missing.Add(r.Cell, r.Err)
		}
	}
	if missing.Len() > 0 {
		return missing.Fault("%s is not in the cells that answered; these did not", what)
	}
	return fault.New(fault.NotFound, "there is no %s", what)
}
