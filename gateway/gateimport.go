package gateway

import (
	"context"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
)

// importAgain is how long after an import that the legacy database failed the next one is
// tried, give or take a tenth.
const importAgain = time.Second

// importTrouble says that the legacy database gives no instances, so that no host of its
// rows can be imported.
type importTrouble struct {
	// host is that of the import that found it, since when.
	host  string
	since time.Time
	err   error
}

// importMissing has hosts imported that legacy rows have and the shard does not yet,
// and sends their claims once more. A host that cannot be imported is not chosen again; while
// none can, the request goes on with those that the shard has. A cell that cannot be
// planned on is lost: it is not full. results are those of orders.
func (s *selection) importMissing(ctx context.Context, orders []claimOrder, results []claimResult) {
	var again []claimOrder
	var at []int
	for i, o := range orders {
		v := &s.views[o.cell]
		if !v.standIn || results[i].refusal == nil || fault.Kind(results[i].refusal.GetReason()) != fault.NotFound || s.lost[o.cell] != nil {
			continue
		}
		switch err := v.gate.importHost(ctx, o.claim.GetHostUuid()); {
		case err == nil:
			again, at = append(again, o), append(at, i)
		case ofHost(err):
			s.g.log.WarnContext(ctx, "a legacy host that was chosen is not in the shard, and could not be imported",
				"cell", s.g.cells[o.cell].cfg.Name, "host", o.host, "error", err)
			s.excludeHost(o.host, "not imported")
		case v.gate.noImports.Load() != nil && s.goOnWithout(ctx, o.cell):
		default:
			s.markUnavailable(ctx, o.cell, err)
		}
	}
	if len(again) == 0 {
		return
	}
	for k, r := range s.send(ctx, again) {
		results[at[k]] = r
	}
}

// ofHost reports whether an import failed for what the one host is, and not for the legacy
// database or the cell.
func ofHost(err error) bool {
	switch fault.KindOf(err) {
	case fault.NotFound, fault.InvalidRequest, fault.StaleGeneration:
		return true
	}
	return false
}

// importHost imports one host from the rows there are. While the database gives no
// instances it fails at once: tryAgain looks when it does again.
func (w *gate) importHost(ctx context.Context, host string) error {
	if t := w.noImports.Load(); t != nil {
		return w.notImported(t.err)
	}
	err := w.tryImport(ctx, host)
	if !instancesFailed(err) {
		return err
	}
	if ctx.Err() == nil && w.noImports.CompareAndSwap(nil, &importTrouble{host: host, since: w.g.now(), err: err}) {
		w.g.log.WarnContext(ctx, "the legacy database of a cell gives no instances: hosts that its shard lacks cannot be imported",
			"cell", w.cell.cfg.Name, "trouble", string(legacy.TroubleOf(err)), "error", err)
		select {
		case w.failing <- struct{}{}:
		default: // it is told already
		}
	}
	return w.notImported(err)
}

// instancesFailed reports whether an import failed for the legacy database.
func instancesFailed(err error) bool {
	t := legacy.TroubleOf(err)
	return t != "" && t != legacy.Cancelled
}

func (w *gate) notImported(err error) error {
	return fault.Wrap(fault.CellUnavailable, err, "hosts that the shard lacks cannot be imported: %s", unreadBecause(err)).With("cells", w.cell.cfg.Name)
}

func (w *gate) tryImport(ctx context.Context, host string) error {
	rows := w.rows.Load()
	id, err := schedule.ParseID(host)
	switch {
	case err != nil:
		return err
	case rows == nil || w.importer == nil:
		return fault.New(fault.CellUnavailable, "this gateway does not import")
	}
	bounded, cancel := context.WithTimeout(ctx, w.cell.claimBudget)
	defer cancel()
	return w.importer.ImportHost(bounded, rows.Snapshot, id)
}

// tryAgain imports the host that could not be, again and again until the database gives
// its instances, or the cell is NATIVE and needs none. It ends with ctx.
func (w *gate) tryAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.failing:
		}
		for t := w.noImports.Load(); t != nil; t = w.noImports.Load() {
			if pause(ctx, jittered(importAgain)) != nil {
				return
			}
			if known := w.known.Load(); known == nil || known.GetState() != cellgatev1.Gate_NATIVE {
				err := w.tryImport(ctx, t.host)
				if ctx.Err() != nil {
					return
				}
				if instancesFailed(err) {
					w.noImports.Store(&importTrouble{host: t.host, since: t.since, err: err})
					if err := w.onlyThere(ctx, w.g.now().Add(-listAgain)); err != nil && ctx.Err() == nil {
						w.g.log.DebugContext(ctx, "a cell does not say which hosts its shard has", "cell", w.cell.cfg.Name, "error", err)
					}
					continue
				}
				w.g.log.InfoContext(ctx, "the legacy database of a cell gives instances again", "cell", w.cell.cfg.Name)
			}
			w.importsAgain()
		}
	}
}

// disabledByNova reports whether the newest rows that were read say that Nova's
// cell_mappings disables the cell, whatever its gate.
func (w *gate) disabledByNova() bool {
	if w == nil {
		return false
	}
	rows := w.rows.Load()
	return rows != nil && rows.CellDisabled
}
