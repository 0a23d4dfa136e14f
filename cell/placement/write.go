package placement

import (
	"context"
	"slices"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// WritePlacement does one transaction of the shard.
func (s *Service) WritePlacement(ctx context.Context, req *cellv1.WritePlacementRequest) (*cellv1.WritePlacementResponse, error) {
	if err := s.upToDate(ctx); err != nil {
		return nil, err
	}
	w := &shard.WritePlacement{Adopt: req.GetAdopt()}
	made := map[string]string{} // roots of the providers that this write creates
	for _, in := range req.GetProviders() {
		p, r := s.providerWrite(in, made)
		if r != nil {
			return &cellv1.WritePlacementResponse{Refusal: refusalOf(r)}, nil
		}
		w.Providers = append(w.Providers, p)
	}
	for _, in := range req.GetConsumers() {
		c, r := s.consumerWrite(in, made)
		if r != nil {
			return &cellv1.WritePlacementResponse{Refusal: refusalOf(r)}, nil
		}
		w.Consumers = append(w.Consumers, c)
	}
	o, err := s.apply(ctx, shard.Op{WritePlacement: w})
	if err != nil {
		return nil, err
	}
	return &cellv1.WritePlacementResponse{Refusal: refusalOf(o.Refusal.PlacementPart())}, nil
}

// apply does one operation; a refusal that is not the Placement API's is an error.
func (s *Service) apply(ctx context.Context, op shard.Op) (shard.Outcome, error) {
	o, err := s.state.Queue.DoOne(ctx, op, true)
	if err == nil && o.Refusal != nil && o.Refusal.Placement == nil {
		err = fault.New(o.Refusal.Kind, "%s", o.Refusal.Message)
	}
	return o, err
}

// providerWrite finds the tree that a change concerns. It refuses a name or uuid of another provider of
// the cell.
func (s *Service) providerWrite(in *cellv1.ProviderChange, made map[string]string) (shard.ProviderWrite, *shard.PlacementRefusal) {
	w := shard.ProviderWrite{
		UUID: in.GetUuid(), HostUUID: in.GetUuid(), Create: in.GetCreate(), Delete: in.GetDelete(), Name: in.Name, Parent: in.ParentUuid,
		Generation: in.Generation, Raise: in.GetRaise(),
	}
	refuse := func(reason shard.PlacementReason) (shard.ProviderWrite, *shard.PlacementRefusal) {
		return w, &shard.PlacementRefusal{Reason: reason, Provider: w.UUID}
	}
	root, known := s.rootOf(w.UUID, made)
	switch {
	case w.Create && known:
		return refuse(shard.DuplicateProvider)
	case !w.Create && !known:
		return refuse(shard.ProviderNotFound)
	case known:
		w.HostUUID = root
	}
	if w.Parent != nil && *w.Parent != "" {
		if w.ParentHost, known = s.rootOf(*w.Parent, made); !known {
			return w, &shard.PlacementRefusal{Reason: shard.ParentNotFound, Provider: *w.Parent}
		}
		if w.Create {
			w.HostUUID = w.ParentHost
		}
	}
	if w.Create && w.Parent != nil && *w.Parent == "" {
		w.Parent = nil
	}
	if w.Name != nil && slices.ContainsFunc(s.state.Rows.ProvidersNamed(*w.Name), func(id string) bool { return id != w.UUID }) {
		return w, &shard.PlacementRefusal{Reason: shard.DuplicateProvider, Name: *w.Name}
	}
	if in.Inventories != nil {
		list := []shard.Inventory{}
		for _, i := range in.Inventories.GetInventories() {
			list = append(list, shard.Inventory{
				ResourceClass: i.GetResourceClass(), Total: i.GetTotal(), Reserved: i.GetReserved(), MinUnit: i.GetMinUnit(), MaxUnit: i.GetMaxUnit(),
				StepSize: i.GetStepSize(), AllocationRatio: i.GetAllocationRatio(),
			})
		}
		w.Inventories = &list
	}
	if in.Traits != nil {
		w.Traits = new(in.Traits.GetNames())
	}
	if in.Aggregates != nil {
		w.Aggregates = new(in.Aggregates.GetNames())
	}
	if w.Create {
		made[w.UUID] = w.HostUUID
	}
	return w, nil
}

func (s *Service) rootOf(provider string, made map[string]string) (root string, ok bool) {
	if root, ok = made[provider]; ok {
		return root, true
	}
	t, ok := s.state.Rows.TreeOf(provider)
	if !ok {
		return "", false
	}
	return t.Host.UUID, true
}

func (s *Service) consumerWrite(in *cellv1.ConsumerChange, made map[string]string) (shard.ConsumerWrite, *shard.PlacementRefusal) {
	w := shard.ConsumerWrite{
		UUID: in.GetUuid(), AnyGeneration: in.GetAnyGeneration(), Generation: in.Generation, Raise: in.GetRaise(),
		ProjectID: in.GetProjectId(), UserID: in.GetUserId(), Type: in.GetConsumerType(), MustExist: in.GetMustExist(),
	}
	for _, a := range in.GetAllocations() {
		root, ok := s.rootOf(a.GetProviderUuid(), made)
		if !ok {
			return w, &shard.PlacementRefusal{Reason: shard.ProviderNotFound, Provider: a.GetProviderUuid()}
		}
		at := slices.IndexFunc(w.Allocations, func(o shard.RootAllocations) bool { return o.HostUUID == root })
		if at < 0 {
			at = len(w.Allocations)
			w.Allocations = append(w.Allocations, shard.RootAllocations{HostUUID: root})
		}
		w.Allocations[at].Allocations = append(w.Allocations[at].Allocations,
			shard.Used{ProviderUUID: a.GetProviderUuid(), ResourceClass: a.GetResourceClass(), Amount: a.GetAmount()})
	}
	return w, nil
}

// ChangeName registers or deletes a custom name. It refuses to delete a name that a provider of the
// cell uses.
func (s *Service) ChangeName(ctx context.Context, req *cellv1.ChangeNameRequest) (*cellv1.ChangeNameResponse, error) {
	if err := s.upToDate(ctx); err != nil {
		return nil, err
	}
	n := &shard.NameRef{Kind: shard.NameKind(req.GetKind()), Name: req.GetName()}
	op := shard.Op{PutName: n}
	if req.GetDelete() {
		if s.isNameUsed(*n) {
			reason := shard.TraitInUse
			if n.Kind == shard.ClassName {
				reason = shard.ClassInUse
			}
			return &cellv1.ChangeNameResponse{Refusal: refusalOf(&shard.PlacementRefusal{Reason: reason, Name: n.Name})}, nil
		}
		op = shard.Op{DeleteName: n}
	}
	o, err := s.apply(ctx, op)
	if err != nil {
		return nil, err
	}
	return &cellv1.ChangeNameResponse{Created: o.Created, Refusal: refusalOf(o.Refusal.PlacementPart())}, nil
}

func (s *Service) isNameUsed(n shard.NameRef) bool {
	for _, t := range s.state.Rows.Trees() {
		for i := range t.Host.Providers {
			p := &t.Host.Providers[i]
			if n.Kind == shard.TraitName && slices.Contains(p.Traits, n.Name) ||
				n.Kind == shard.ClassName && slices.ContainsFunc(p.Inventories, func(inv shard.Inventory) bool { return inv.ResourceClass == n.Name }) {
				return true
			}
		}
	}
	return false
}

func refusalOf(r *shard.PlacementRefusal) *cellv1.PlacementRefusal {
	if r == nil {
		return nil
	}
	return &cellv1.PlacementRefusal{Reason: string(r.Reason), Provider: r.Provider, ResourceClass: r.Class, Consumer: r.Consumer, Name: r.Name, Detail: r.Detail}
}
