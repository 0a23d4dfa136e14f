package try

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/legacy/novadb"
	"cellgate/gateway/placement/mirror"
	"cellgate/schedule"
)

// placementRows are the providers and allocations of a Placement, read from its database or through its API.
type placementRows struct {
	// children are by their parent's uuid, in Placement's order.
	children map[schedule.ID][]*schedule.Provider
	roots    map[schedule.ID]*schedule.Provider
	// takes are allocations by consumer, only of the requested consumers.
	takes map[string][]take
}

func newPlacementRows() *placementRows {
	return &placementRows{children: map[schedule.ID][]*schedule.Provider{}, roots: map[schedule.ID]*schedule.Provider{}, takes: map[string][]take{}}
}

// add adds a provider; one without a parent is a root.
func (p *placementRows) add(row *schedule.Provider) {
	if row.Parent == (schedule.ID{}) {
		p.roots[row.UUID] = row
		return
	}
	p.children[row.Parent] = append(p.children[row.Parent], row)
}

// newProvider makes a provider without contents; nil if uuid is invalid.
func newProvider(uuid, parent string) *schedule.Provider {
	id, err := schedule.ParseID(uuid)
	if err != nil {
		return nil
	}
	up, _ := schedule.ParseID(parent) // zero for a root
	return &schedule.Provider{UUID: id, Parent: up}
}

// askPlacement reads the providers, and the allocations of the specs' instances, through Placement's API.
func askPlacement(ctx context.Context, c *mirror.Client, specs []requestSpec) (*placementRows, error) {
	all, err := c.Holdings(ctx, placementCalls)
	if err != nil {
		return nil, err
	}
	p := newPlacementRows()
	for _, h := range all {
		row := newProvider(h.UUID, h.ParentUUID)
		if row == nil {
			continue
		}
		row.Traits = h.Traits
		used := map[string]int64{}
		for _, held := range h.By {
			for class, n := range held {
				used[class] += n
			}
		}
		for _, class := range slices.Sorted(maps.Keys(h.Inventories)) {
			i := h.Inventories[class]
			row.Resources = append(row.Resources, schedule.Resource{
				Class: class, Capacity: capacity(i.Total, i.Reserved, i.AllocationRatio), Used: used[class],
				MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize,
			})
		}
		for _, s := range specs {
			for class, n := range h.By[s.instance] {
				p.takes[s.instance] = append(p.takes[s.instance], take{row.UUID, class, n})
			}
		}
		p.add(row)
	}
	return p, nil
}

// placementCalls is how many calls of Placement's API run at once.
const placementCalls = 8

// take is a consumer's allocation of a provider's class.
type take struct {
	provider schedule.ID
	class    string
	amount   int64
}

// readPlacement reads the providers and the allocations of the specs' instances, in one read-only transaction.
func readPlacement(ctx context.Context, d novadb.Database, specs []requestSpec) (*placementRows, error) {
	db, err := novadb.OpenPool(d, queryTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it was read
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	p := newPlacementRows()
	if err := p.read(ctx, tx, specs); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *placementRows) read(ctx context.Context, tx *sql.Tx, specs []requestSpec) error {
	byID := map[int64]*schedule.Provider{}
	err := eachRow(ctx, tx, `SELECT p.id, p.uuid, COALESCE(u.uuid, '') FROM resource_providers p
LEFT JOIN resource_providers u ON u.id = p.parent_provider_id ORDER BY p.id`, func(r *sql.Rows) error {
		var id int64
		var uuid, parent string
		if err := r.Scan(&id, &uuid, &parent); err != nil {
			return err
		}
		if row := newProvider(uuid, parent); row != nil {
			byID[id] = row
			p.add(row)
		}
		return nil
	})
	if err != nil {
		return err
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
		x.Capacity = capacity(total, reserved, ratio)
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

// provide gives a host the provider tree that Placement has for it, and reports whether there is one.
func (p *placementRows) provide(h *schedule.Host) bool {
	root := p.roots[h.UUID]
	if root == nil {
		return false
	}
	h.Resources, h.Traits, h.Children = root.Resources, root.Traits, nil
	for below := slices.Clone(p.children[root.UUID]); len(below) > 0; below = below[1:] {
		h.Children = append(h.Children, *below[0])
		below = append(below, p.children[below[0].UUID]...)
	}
	return true
}

// sharing gives the providers that share what they have with the hosts of their aggregates.
func (p *placementRows) sharing() (all []SharingProvider) {
	for id, root := range p.roots {
		if !slices.Contains(root.Traits, "MISC_SHARES_VIA_AGGREGATE") {
			continue
		}
		one := SharingProvider{UUID: id.String(), Classes: []string{}}
		for _, r := range root.Resources {
			one.Classes = append(one.Classes, r.Class)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b SharingProvider) int { return strings.Compare(a.UUID, b.UUID) })
	return all
}

// without gives the resources of a host, and its children, without an instance's allocations.
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
