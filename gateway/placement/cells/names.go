package cells

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/placement"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// cachedNames are the custom names as read at a time.
type cachedNames struct {
	at    time.Time
	names map[placement.NameKind][]string
}

// namesFor is how long HasName answers from its cache that a name is registered. A name that is not in the cache may
// just have been registered by another gateway.
const namesFor = 2 * time.Second

// HasName reports whether any cell has a name.
func (b *Backend) HasName(ctx context.Context, kind placement.NameKind, name string) (bool, error) {
	b.mu.Lock()
	known := b.names
	b.mu.Unlock()
	if _, found := slices.BinarySearch(known.names[kind], name); found && b.now().Sub(known.at) < namesFor {
		return true, nil
	}
	names, err := b.Names(ctx, kind)
	_, found := slices.BinarySearch(names, name)
	return found, err
}

// Names gives the names that any cell has. It also registers them in cells that lack some, for example since they
// were down when a name was registered.
func (b *Backend) Names(ctx context.Context, kind placement.NameKind) ([]string, error) {
	at := b.now()
	replies := cellclient.AskAll(ctx, b.Cells.All, b.namesIn)
	union := map[placement.NameKind][]string{}
	answered := false
	var failed error
	for _, r := range replies {
		if r.Err != nil {
			failed = unanswered(r.Cell, r.Err)
			continue
		}
		answered = true
		for kind, list := range r.Got {
			union[kind] = append(union[kind], list...)
		}
	}
	if !answered {
		return nil, failed
	}
	for kind, list := range union {
		slices.Sort(list)
		union[kind] = slices.Compact(list)
	}
	for _, r := range replies {
		for kind, has := range r.Got {
			b.catchUp(ctx, r.Cell, kind, union[kind], has)
		}
	}
	b.setNames(cachedNames{at, union})
	return union[kind], nil
}

func (b *Backend) setNames(n cachedNames) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.names = n
}

// namesIn reads one cell's names of both kinds; nil with an error.
func (b *Backend) namesIn(ctx context.Context, c *cellclient.Cell) (map[placement.NameKind][]string, error) {
	got, err := ask(ctx, b, c, &cellv1.ListNamesRequest{}, cellv1.CellPlacementClient.ListNames)
	if err != nil {
		return nil, err
	}
	return map[placement.NameKind][]string{placement.ClassName: got.GetClasses(), placement.TraitName: got.GetTraits()}, nil
}

// catchUp registers the names of all in a cell that has only some. After a failure, the next read of names tries again.
func (b *Backend) catchUp(ctx context.Context, c *cellclient.Cell, kind placement.NameKind, all, has []string) {
	for _, name := range all {
		if slices.Contains(has, name) {
			continue
		}
		if _, err := b.putNameIn(ctx, c, kind, name); err != nil {
			b.Log.Warn("a custom name of Placement could not be registered in a cell that lacks it", "cell", c.Name(), "name", name, "err", err)
			return
		}
	}
}

func (b *Backend) putNameIn(ctx context.Context, c *cellclient.Cell, kind placement.NameKind, name string) (created bool, err error) {
	got, err := ask(ctx, b, c, &cellv1.ChangeNameRequest{Kind: string(kind), Name: name}, cellv1.CellPlacementClient.ChangeName)
	return got.GetCreated(), err
}

// PutName registers a name in every cell that answers. A silent cell gets it later (Names).
func (b *Backend) PutName(ctx context.Context, kind placement.NameKind, name string) (created bool, err error) {
	created, answered := true, false
	for _, r := range cellclient.AskAll(ctx, b.Cells.All, func(ctx context.Context, c *cellclient.Cell) (bool, error) {
		return b.putNameIn(ctx, c, kind, name)
	}) {
		if r.Err != nil {
			err = unanswered(r.Cell, r.Err)
			continue
		}
		answered = true
		created = created && r.Got
	}
	if !answered {
		return false, err
	}
	return created, nil
}

// DeleteName removes a name from every cell. All must answer, since a silent one would bring the name back. If a cell
// refuses, it registers the name again in the others.
func (b *Backend) DeleteName(ctx context.Context, kind placement.NameKind, name string) error {
	defer b.setNames(cachedNames{})
	_, missing, err := askThose(ctx, b, b.Cells.All, 0, never, b.namesIn)
	if err = cmp.Or(err, missing.err()); err != nil {
		return err
	}
	notThere := placement.TraitNotFound
	if kind == placement.ClassName {
		notThere = placement.ClassNotFound
	}
	var deleted []*cellclient.Cell
	for _, c := range b.Cells.All {
		err := b.deleteNameIn(ctx, c, kind, name)
		switch {
		case err == nil:
			deleted = append(deleted, c)
		case placement.ReasonOf(err) != notThere:
			return b.restoreName(ctx, deleted, kind, name, err)
		}
	}
	if len(deleted) == 0 {
		return &placement.Refusal{Reason: notThere, Name: name}
	}
	return nil
}

func (b *Backend) deleteNameIn(ctx context.Context, c *cellclient.Cell, kind placement.NameKind, name string) error {
	got, err := ask(ctx, b, c, &cellv1.ChangeNameRequest{Kind: string(kind), Name: name, Delete: true}, cellv1.CellPlacementClient.ChangeName)
	if err != nil {
		return cellclient.ChangeError(ctx, c, unanswered(c, err))
	}
	return refusalOf(got.GetRefusal())
}

// restoreName registers a name again in the cells that have deleted it, and gives the error of the cell that has not.
func (b *Backend) restoreName(ctx context.Context, deleted []*cellclient.Cell, kind placement.NameKind, name string, err error) error {
	for _, c := range deleted {
		if _, back := b.putNameIn(context.WithoutCancel(ctx), c, kind, name); back != nil {
			err = fault.Wrap(fault.KindOf(err), errors.Join(err, back), "%v; the name is now missing in cell %s", err, c.Name())
		}
	}
	return err
}
