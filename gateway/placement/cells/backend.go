package cells

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/placement"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Config configures the backend.
type Config struct {
	// DefaultCell is the cell of new roots for which neither path nor compute node names one. It must exist. If it is
	// empty, such a root is refused, unless there is only one cell.
	DefaultCell string
	// Budget bounds a cell's answer; 0 means 5 s.
	Budget time.Duration
	// Patience is how long to wait for the other cells once the consumers are found in one; 0 means 250 ms.
	Patience time.Duration
}

// Deps are what the backend is given.
type Deps struct {
	Cells *cellclient.Cells
	// HostCell gives the cell whose Nova database has a compute node with that uuid; "" for none. It is nil without
	// Nova's databases. A compute node exists before its provider does, but it is not yet mapped to its cell then.
	HostCell func(ctx context.Context, uuid string) (cell string, err error)
	Log      *slog.Logger
}

// Backend is a placement.Backend. Safe for concurrent use.
type Backend struct {
	Deps
	cfg Config
	now func() time.Time

	mu sync.Mutex
	// known has the last known cell of each provider.
	known map[string]*cellclient.Cell
	names cachedNames
	homes homes
	locks locks
}

var _ placement.Backend = (*Backend)(nil)

const (
	defaultBudget   = 5 * time.Second
	defaultPatience = 250 * time.Millisecond
)

// New makes the backend of a gateway's cells.
func New(cfg Config, d Deps) *Backend {
	cfg.Budget = cmp.Or(cfg.Budget, defaultBudget)
	cfg.Patience = cmp.Or(cfg.Patience, defaultPatience)
	return &Backend{Deps: d, cfg: cfg, now: time.Now, known: map[string]*cellclient.Cell{}}
}

// ask calls one cell.
func ask[Req, Resp any](ctx context.Context, b *Backend, c *cellclient.Cell, req *Req,
	method func(cellv1.CellPlacementClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	return cellclient.CallPlacement(ctx, c, b.cfg.Budget, req, method)
}

// silent are the cells that did not answer a call, with their errors.
type silent []silentCell

type silentCell struct {
	cell *cellclient.Cell
	error
}

// err gives the error of the first silent cell; nil if all answered.
func (s silent) err() error {
	if len(s) == 0 {
		return nil
	}
	return s[0].error
}

// without reports whether a cell, which may be nil, was asked and is none of them.
func (s silent) without(c *cellclient.Cell) bool {
	return c != nil && !slices.ContainsFunc(s, func(one silentCell) bool { return one.cell == c })
}

// allow notes that the request is answered without the silent cells. If none of the cells asked has answered, it
// gives an error.
func (s silent) allow(ctx context.Context, asked int) error {
	if len(s) == asked {
		return s.err()
	}
	for _, one := range s {
		placement.NoteSilentCell(ctx, one.cell.Name())
	}
	return nil
}

// never is the enough of a call that needs the replies of all cells.
func never[T any](T) bool { return false }

// askThose calls cells at once, as cellclient.Search does: once a reply is enough, it waits for the others until
// patience has passed. A refusal by a cell is an error.
func askThose[T any](ctx context.Context, b *Backend, list []*cellclient.Cell, patience time.Duration, enough func(T) bool, call func(context.Context, *cellclient.Cell) (T, error)) (answered []cellclient.Reply[T], missing silent, err error) {
	for _, r := range cellclient.Search(ctx, b.Cells, list, patience, enough, call) {
		switch {
		case r.Err == nil:
			answered = append(answered, r)
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case cellclient.IsInconclusive(r.Err):
			missing = append(missing, silentCell{r.Cell, unanswered(r.Cell, r.Err)})
		default:
			return nil, nil, r.Err
		}
	}
	return answered, missing, nil
}

// unanswered gives the error of a call to a cell whose answer is needed.
func unanswered(c *cellclient.Cell, err error) error {
	if !cellclient.IsInconclusive(err) {
		return err
	}
	return fault.Wrap(fault.KindOf(err), err, "cell %s: %s", c.Name(), cellclient.ReasonOf(err)).With("cell", c.Name())
}

// remember records that a cell has providers; forget drops one.
func (b *Backend) remember(c *cellclient.Cell, providers []*cellv1.ResourceProvider) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range providers {
		b.known[p.GetUuid()] = c
	}
}

func (b *Backend) forget(uuid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, uuid)
}

// knownCells gives the known cells of providers, and the providers whose cell is not known.
func (b *Backend) knownCells(uuids []string) (at map[string]*cellclient.Cell, unknown []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at = map[string]*cellclient.Cell{}
	for _, id := range uuids {
		if c := b.known[id]; c != nil {
			at[id] = c
		} else {
			unknown = append(unknown, id)
		}
	}
	return at, unknown
}

// cellsOf gives the cell of each provider, without those that no cell has. It asks all cells for unknown providers.
// If a provider is not found and a cell did not answer, that is an error.
func (b *Backend) cellsOf(ctx context.Context, uuids []string) (map[string]*cellclient.Cell, error) {
	out, unknown := b.knownCells(uuids)
	if len(unknown) == 0 {
		return out, nil
	}
	found := 0
	enough := func(got []*cellv1.ResourceProvider) bool { found += len(got); return found >= len(unknown) }
	replies, missing, err := askThose(ctx, b, b.Cells.All, 0, enough, func(ctx context.Context, c *cellclient.Cell) ([]*cellv1.ResourceProvider, error) {
		return b.providersIn(ctx, c, &cellv1.ListProvidersRequest{Uuids: unknown})
	})
	if err != nil {
		return nil, err
	}
	for _, r := range replies {
		b.remember(r.Cell, r.Got)
		for _, p := range r.Got {
			out[p.GetUuid()] = r.Cell
		}
	}
	if slices.ContainsFunc(unknown, func(id string) bool { return out[id] == nil }) {
		return out, missing.err()
	}
	return out, nil
}

// HasCell reports whether there is a cell of that name.
func (b *Backend) HasCell(name string) bool { return b.Cells.Named(name) != nil }

// newRootCell gives the cell of a new root: the path's cell, the only cell, the cell of Nova's compute node, or the
// default cell, in this order.
func (b *Backend) newRootCell(ctx context.Context, w *placement.ProviderWrite) (*cellclient.Cell, error) {
	name := w.Cell
	if name == "" && len(b.Cells.All) == 1 {
		return b.Cells.All[0], nil
	}
	if name == "" && b.HostCell != nil {
		var err error
		if name, err = b.HostCell(ctx, w.UUID); err != nil {
			return nil, fault.Wrap(fault.CellUnavailable, err, "the cell of provider %s is not known: Nova's tables of compute nodes cannot be read", w.UUID)
		}
	}
	if name == "" {
		name = b.cfg.DefaultCell
	}
	if c := b.Cells.Named(name); c != nil && name != "" {
		return c, nil
	}
	if name == "" {
		return nil, &placement.Refusal{Reason: placement.CellNotFound, Provider: w.UUID, Detail: "the path names none (/cells/NAME), and gateway.placement.default_cell is not set"}
	}
	return nil, &placement.Refusal{Reason: placement.CellNotFound, Provider: w.UUID, Name: name}
}
