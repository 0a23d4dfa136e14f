package gateway

import (
	"context"
	"strings"
	"sync"

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
