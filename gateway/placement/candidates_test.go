package placement

import (
	"cmp"
	"slices"

	"cellgate/internal/fault"
	pure "cellgate/schedule/placement"
)

// findCandidates runs the pure search over all providers.
func findCandidates(all []*Provider, q CandidateQuery) (*Candidates, error) {
	byID, byRoot := map[string]*Provider{}, map[string][]pure.Provider{}
	for _, p := range all {
		byID[p.UUID] = p
		one := pure.Provider{UUID: p.UUID, Parent: p.ParentUUID, Traits: slices.Clone(p.Traits), Aggregates: slices.Clone(p.Aggregates)}
		for class, i := range p.Inventories {
			one.Inventories = append(one.Inventories, pure.Inventory{
				Class: class, Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize,
				AllocationRatio: i.AllocationRatio, Used: p.Used[class],
			})
		}
		byRoot[p.RootUUID] = append(byRoot[p.RootUUID], one)
	}
	var trees []*pure.Tree
	for _, root := range keys(byRoot) {
		tree, err := pure.NewTree(byRoot[root])
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree)
	}
	found, err := pure.Candidates(trees, &q)
	if err != nil {
		return nil, fault.New(fault.InvalidRequest, "%v", err)
	}
	out := &Candidates{}
	for _, r := range found.Requests {
		one := Candidate{Allocations: Allocations{}, Mappings: map[string][]string{}}
		for _, a := range r.Allocations {
			if one.Allocations[a.Provider.UUID] == nil {
				one.Allocations[a.Provider.UUID] = map[string]int64{}
			}
			one.Allocations[a.Provider.UUID][a.Class] = a.Amount
		}
		for _, m := range r.Mappings {
			for _, p := range m.Providers {
				one.Mappings[m.Suffix] = append(one.Mappings[m.Suffix], p.UUID)
			}
		}
		out.Requests = append(out.Requests, one)
	}
	for _, p := range found.Providers {
		out.Providers = append(out.Providers, byID[p.UUID])
	}
	slices.SortFunc(out.Providers, func(a, b *Provider) int { return cmp.Compare(a.UUID, b.UUID) })
	return out, nil
}
