package trial

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"cellgate/gateway/legacy/novadb"
	"cellgate/schedule"
)

// placementRows are what is read of Placement's database.
type placementRows struct {
	// children are by parent, by the id of their row; roots by uuid.
	children map[int64][]*providerRow
	roots    map[schedule.ID]*providerRow
	// takes are by consumer, those that are asked for.
	takes map[string][]take
}

type providerRow struct {
	id int64
	schedule.Provider
}

// take is what a consumer has of a provider's class.
type take struct {
	provider schedule.ID
	class    string
	amount   int64
}

// readPlacement reads the providers and what the specs' instances take, in one read-only transaction.
func readPlacement(ctx context.Context, d novadb.Database, specs []requestSpec) (*placementRows, error) {
	db, err := openDatabase(d)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it was read
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	p := &placementRows{children: map[int64][]*providerRow{}, roots: map[schedule.ID]*providerRow{}, takes: map[string][]take{}}
	if err := p.read(ctx, tx, specs); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *placementRows) read(ctx context.Context, tx *sql.Tx, specs []requestSpec) error {
	byID := map[int64]*providerRow{}
	parents := map[int64]int64{}
	err := eachRow(ctx, tx, "SELECT id, uuid, parent_provider_id FROM resource_providers ORDER BY id", func(r *sql.Rows) error {
		var row providerRow
		var uuid string
		var parent sql.NullInt64
		if err := r.Scan(&row.id, &uuid, &parent); err != nil {
			return err
		}
		id, err := schedule.ParseID(uuid)
		if err != nil {
			return nil //nolint:nilerr // no host of Nova's has such a uuid
		}
		row.UUID = id
		byID[row.id] = &row
		if parent.Valid {
			parents[row.id] = parent.Int64
		} else {
			p.roots[id] = &row
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, row := range byID {
		if parent := byID[parents[id]]; parent != nil {
			row.Parent = parent.UUID
			p.children[parent.id] = append(p.children[parent.id], row)
		}
	}
	for _, of := range p.children {
		slices.SortFunc(of, func(a, b *providerRow) int { return int(a.id - b.id) })
	}
	err = eachRow(ctx, tx, `SELECT i.resource_provider_id, c.name, i.total, i.reserved, i.allocation_ratio, i.min_unit, i.max_unit, i.step_size,
COALESCE((SELECT SUM(a.used) FROM allocations a WHERE a.resource_provider_id = i.resource_provider_id AND a.resource_class_id = i.resource_class_id), 0)
FROM inventories i JOIN resource_classes c ON c.id = i.resource_class_id ORDER BY i.id`, func(r *sql.Rows) error {
		var id, total, reserved int64
		var ratio float64
		var x schedule.Resource
		if err := r.Scan(&id, &x.Class, &total, &reserved, &ratio, &x.MinUnit, &x.MaxUnit, &x.StepSize, &x.Used); err != nil {
			return err
		}
		x.Capacity = int64(float64(total-reserved) * ratio)
		if row := byID[id]; row != nil {
			row.Resources = append(row.Resources, x)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = eachRow(ctx, tx, "SELECT t.resource_provider_id, n.name FROM resource_provider_traits t JOIN traits n ON n.id = t.trait_id ORDER BY n.name", func(r *sql.Rows) error {
		var id int64
		var name string
		if err := r.Scan(&id, &name); err != nil {
			return err
		}
		if row := byID[id]; row != nil {
			row.Traits = append(row.Traits, name)
		}
		return nil
	})
	if err != nil || len(specs) == 0 {
		return err
	}
	quoted := make([]string, 0, len(specs))
	for _, s := range specs {
		if id, err := schedule.ParseID(s.instance); err == nil {
			quoted = append(quoted, "'"+id.String()+"'")
		}
	}
	if len(quoted) == 0 {
		return nil
	}
	return eachRow(ctx, tx, `SELECT a.consumer_id, a.resource_provider_id, c.name, a.used FROM allocations a JOIN resource_classes c ON c.id = a.resource_class_id
WHERE a.consumer_id IN (`+strings.Join(quoted, ", ")+")", func(r *sql.Rows) error {
		var consumer string
		var id int64
		var t take
		if err := r.Scan(&consumer, &id, &t.class, &t.amount); err != nil {
			return err
		}
		if row := byID[id]; row != nil {
			t.provider = row.UUID
			p.takes[consumer] = append(p.takes[consumer], t)
		}
		return nil
	})
}

// provide gives a host the tree that Placement has of it, and reports whether it has one.
func (p *placementRows) provide(h *schedule.Host) bool {
	root := p.roots[h.UUID]
	if root == nil {
		return false
	}
	h.Resources, h.Traits, h.Children = root.Resources, root.Traits, nil
	for below := slices.Clone(p.children[root.id]); len(below) > 0; below = below[1:] {
		h.Children = append(h.Children, below[0].Provider)
		below = append(below, p.children[below[0].id]...)
	}
	return true
}

// without is what a host and its children have, without what an instance takes.
func (p *placementRows) without(h *schedule.Host, instance string) ([]schedule.Resource, []schedule.Provider) {
	taken := func(provider schedule.ID, all []schedule.Resource) []schedule.Resource {
		all = slices.Clone(all)
		for i := range all {
			for _, t := range p.takes[instance] {
				if t.provider == provider && t.class == all[i].Class {
					all[i].Used -= t.amount
				}
			}
		}
		return all
	}
	children := slices.Clone(h.Children)
	for i := range children {
		children[i].Resources = taken(children[i].UUID, children[i].Resources)
	}
	return taken(h.UUID, h.Resources), children
}
