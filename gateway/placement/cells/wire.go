package cells

import (
	"maps"
	"slices"

	"cellgate/gateway/placement"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

func providerOf(cell string, p *cellv1.ResourceProvider) *placement.Provider {
	out := &placement.Provider{
		UUID: p.GetUuid(), Name: p.GetName(), RootUUID: p.GetRootUuid(), ParentUUID: p.GetParentUuid(), Cell: cell, Generation: p.GetGeneration(),
		Inventories: map[string]placement.Inventory{}, Traits: p.GetTraits(), Aggregates: p.GetAggregates(), Used: map[string]int64{},
	}
	for _, i := range p.GetInventories() {
		out.Inventories[i.GetResourceClass()] = placement.Inventory{
			Total: i.GetTotal(), Reserved: i.GetReserved(), MinUnit: i.GetMinUnit(), MaxUnit: i.GetMaxUnit(), StepSize: i.GetStepSize(), AllocationRatio: i.GetAllocationRatio(),
		}
		if i.GetUsed() > 0 {
			out.Used[i.GetResourceClass()] = i.GetUsed()
		}
	}
	return out
}

func inventoriesOf(in map[string]placement.Inventory) *cellv1.PlacementInventories {
	out := &cellv1.PlacementInventories{}
	for _, class := range slices.Sorted(maps.Keys(in)) {
		i := in[class]
		out.Inventories = append(out.Inventories, &cellv1.PlacementInventory{
			ResourceClass: class, Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize, AllocationRatio: i.AllocationRatio,
		})
	}
	return out
}

func filterOf(f placement.NameFilter) *cellv1.NameFilter {
	out := &cellv1.NameFilter{Forbidden: f.Forbidden}
	for _, set := range f.AnyOf {
		out.AnyOf = append(out.AnyOf, &cellv1.PlacementNames{Names: set})
	}
	return out
}

func allocationsOf(list []*cellv1.PlacementAllocation) placement.Allocations {
	out := placement.Allocations{}
	addAllocations(out, list)
	return out
}

func addAllocations(to placement.Allocations, list []*cellv1.PlacementAllocation) {
	for _, a := range list {
		if to[a.GetProviderUuid()] == nil {
			to[a.GetProviderUuid()] = map[string]int64{}
		}
		to[a.GetProviderUuid()][a.GetResourceClass()] += a.GetAmount()
	}
}

func changeOf(w *placement.ProviderWrite) *cellv1.ProviderChange {
	out := &cellv1.ProviderChange{
		Uuid: w.UUID, Create: w.Create, Delete: w.Delete, Name: w.Name, ParentUuid: w.Parent, Generation: w.Generation, Raise: w.Raise,
	}
	if w.Inventories != nil {
		out.Inventories = inventoriesOf(*w.Inventories)
	}
	if w.Traits != nil {
		out.Traits = &cellv1.PlacementNames{Names: *w.Traits}
	}
	if w.Aggregates != nil {
		out.Aggregates = &cellv1.PlacementNames{Names: *w.Aggregates}
	}
	return out
}

// refusalOf gives a cell's refusal as the API's error; nil for none.
func refusalOf(r *cellv1.PlacementRefusal) error {
	if r == nil {
		return nil
	}
	return &placement.Refusal{
		Reason: placement.Reason(r.GetReason()), Provider: r.GetProvider(), Class: r.GetResourceClass(), Consumer: r.GetConsumer(), Name: r.GetName(), Detail: r.GetDetail(),
	}
}
