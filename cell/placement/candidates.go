package placement

import (
	"context"
	"maps"
	"slices"
	"sync"

	"cellgate/cell/replica"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule/placement"
	"cellgate/shard"
)

// treeCache caches the trees of the last search; each is valid while its row is the same.
type treeCache struct {
	mu    sync.Mutex
	trees map[string]cachedTree
}

type cachedTree struct {
	row  replica.TreeRow
	tree *placement.Tree
}

func (c *treeCache) treesOf(rows []replica.TreeRow) ([]*placement.Tree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[string]cachedTree, len(rows))
	out := make([]*placement.Tree, len(rows))
	for i, row := range rows {
		known := c.trees[row.Host.UUID]
		if known.row != row {
			t, err := placement.NewTree(treeOf(row))
			if err != nil {
				return nil, fault.Wrap(fault.Internal, err, "the tree of %s", row.Host.UUID)
			}
			known = cachedTree{row, t}
		}
		next[row.Host.UUID], out[i] = known, known.tree
	}
	c.trees = next
	return out, nil
}

func treeOf(t replica.TreeRow) []placement.Provider {
	var out []placement.Provider
	for i := range t.Host.Providers {
		p := &t.Host.Providers[i]
		one := placement.Provider{UUID: p.UUID, Parent: p.ParentUUID, Traits: slices.Clone(p.Traits), Aggregates: slices.Clone(p.Aggregates)}
		for _, inv := range p.Inventories {
			one.Inventories = append(one.Inventories, placement.Inventory{
				Class: inv.ResourceClass, Total: inv.Total, Reserved: inv.Reserved, MinUnit: inv.MinUnit, MaxUnit: inv.MaxUnit, StepSize: inv.StepSize,
				AllocationRatio: inv.AllocationRatio, Used: t.Usage.Of(p.UUID, inv.ResourceClass) + inv.Unaccounted,
			})
		}
		out = append(out, one)
	}
	return out
}

// FindCandidates searches the cell's trees.
func (s *Service) FindCandidates(ctx context.Context, req *cellv1.FindCandidatesRequest) (*cellv1.FindCandidatesResponse, error) {
	if err := s.upToDate(ctx); err != nil {
		return nil, err
	}
	rows := s.state.Rows.Trees()
	trees, err := s.trees.treesOf(rows)
	if err != nil {
		return nil, err
	}
	found, err := placement.Candidates(trees, queryOf(req))
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "%v", err) // QueryError or BoundError
	}
	out := &cellv1.FindCandidatesResponse{}
	for _, r := range found.Requests {
		one := &cellv1.AllocationCandidate{}
		for _, a := range r.Allocations {
			one.Allocations = append(one.Allocations, &cellv1.PlacementAllocation{ProviderUuid: a.Provider.UUID, ResourceClass: a.Class, Amount: a.Amount})
		}
		for _, m := range r.Mappings {
			g := &cellv1.GroupMapping{Suffix: m.Suffix}
			for _, p := range m.Providers {
				g.Providers = append(g.Providers, p.UUID)
			}
			one.Mappings = append(one.Mappings, g)
		}
		out.Candidates = append(out.Candidates, one)
	}
	at := map[string]replica.TreeRow{}
	for _, t := range rows {
		for i := range t.Host.Providers {
			at[t.Host.Providers[i].UUID] = t
		}
	}
	for _, p := range found.Providers {
		t := at[p.UUID]
		i := slices.IndexFunc(t.Host.Providers, func(o shard.Provider) bool { return o.UUID == p.UUID })
		out.Providers = append(out.Providers, providerOf(t, &t.Host.Providers[i]))
	}
	return out, nil
}

func queryOf(req *cellv1.FindCandidatesRequest) *placement.Query {
	q := &placement.Query{Isolate: req.GetIsolate(), RootTraits: filterOf(req.GetRootTraits()), Limit: int(req.GetLimit()), Nested: req.GetNested()}
	for _, set := range req.GetSameSubtrees() {
		q.SameSubtrees = append(q.SameSubtrees, set.GetNames())
	}
	for _, g := range req.GetGroups() {
		q.Groups = append(q.Groups, placement.Group{
			Suffix: g.GetSuffix(), Resources: maps.Clone(g.GetResources()), Traits: filterOf(g.GetTraits()), Aggregates: filterOf(g.GetAggregates()), InTree: g.GetInTree(),
		})
	}
	return q
}

func filterOf(f *cellv1.NameFilter) placement.Filter {
	out := placement.Filter{Forbidden: f.GetForbidden()}
	for _, set := range f.GetAnyOf() {
		out.AnyOf = append(out.AnyOf, set.GetNames())
	}
	return out
}
