package mirror

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"cellgate/gateway/placement"
)

// store is a Backend in memory: what cells keep, as far as a mirror sees it.
type store struct {
	mu        sync.Mutex
	providers map[string]placement.Provider
	consumers map[string]placement.Consumer
	names     map[placement.NameKind][]string
	// down fails every call; agents are roots of trees that agents report.
	down   error
	agents map[string]bool
	writes int
	// roomy accepts allocations above a capacity.
	roomy bool
}

func newStore() *store {
	return &store{
		providers: map[string]placement.Provider{}, consumers: map[string]placement.Consumer{},
		names: map[placement.NameKind][]string{}, agents: map[string]bool{},
	}
}

func refuse(reason placement.Reason, provider, name string) error {
	return &placement.Refusal{Reason: reason, Provider: provider, Name: name}
}

func (s *store) Providers(_ context.Context, q placement.ProviderQuery) ([]*placement.Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*placement.Provider
	for _, id := range slices.Sorted(maps.Keys(s.providers)) {
		p := s.providers[id]
		if (q.UUIDs == nil || slices.Contains(q.UUIDs, id)) && (q.Name == "" || q.Name == p.Name) && (q.InTree == "" || s.providers[q.InTree].RootUUID == p.RootUUID) {
			p.Used = s.used(id)
			out = append(out, &p)
		}
	}
	return out, s.down
}

func (s *store) used(provider string) map[string]int64 {
	out := map[string]int64{}
	for _, c := range s.consumers {
		for class, n := range c.Allocations[provider] {
			out[class] += n
		}
	}
	return out
}

func (s *store) Consumers(_ context.Context, q placement.ConsumerQuery) ([]*placement.Consumer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*placement.Consumer
	for _, id := range slices.Sorted(maps.Keys(s.consumers)) {
		c := s.consumers[id]
		if (q.UUIDs == nil || slices.Contains(q.UUIDs, id)) && (q.Provider == "" || c.Allocations[q.Provider] != nil) {
			out = append(out, &c)
		}
	}
	return out, s.down
}

func (s *store) Usages(context.Context, placement.UsageQuery) ([]placement.Usage, error) {
	return nil, nil
}

func (s *store) Candidates(context.Context, placement.CandidateQuery) (*placement.Candidates, error) {
	return &placement.Candidates{}, nil
}

func (s *store) Names(_ context.Context, kind placement.NameKind) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.names[kind]), s.down
}

func (s *store) HasName(_ context.Context, kind placement.NameKind, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.names[kind], name), s.down
}

func (s *store) PutName(_ context.Context, kind placement.NameKind, name string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearch(s.names[kind], name)
	if !found && s.down == nil {
		s.names[kind] = slices.Insert(s.names[kind], at, name)
	}
	return !found, s.down
}

func (s *store) DeleteName(_ context.Context, kind placement.NameKind, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.providers {
		if _, has := p.Inventories[name]; has || slices.Contains(p.Traits, name) {
			return refuse(map[placement.NameKind]placement.Reason{placement.ClassName: placement.ClassInUse, placement.TraitName: placement.TraitInUse}[kind], "", name)
		}
	}
	s.names[kind] = slices.DeleteFunc(s.names[kind], func(n string) bool { return n == name })
	return s.down
}

func (s *store) Write(_ context.Context, w placement.Write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	s.writes++
	providers, consumers := maps.Clone(s.providers), maps.Clone(s.consumers)
	err := s.write(&w)
	if err != nil {
		s.providers, s.consumers = providers, consumers
	}
	return err
}

func (s *store) write(w *placement.Write) error {
	for i := range w.Providers {
		if err := s.writeProvider(&w.Providers[i]); err != nil {
			return err
		}
	}
	raised := map[string]bool{}
	for i := range w.Consumers {
		if err := s.writeConsumer(&w.Consumers[i], raised); err != nil {
			return err
		}
	}
	for id := range raised {
		if p, ok := s.providers[id]; ok {
			p.Generation++
			s.providers[id] = p
		}
	}
	for i := range w.Consumers {
		for id, resources := range w.Consumers[i].Allocations {
			for class, n := range resources {
				inv, has := s.providers[id].Inventories[class]
				if !has {
					return refuse(placement.InventoryMissing, id, "")
				}
				if !s.roomy && float64(s.used(id)[class]) > float64(inv.Total-inv.Reserved)*inv.AllocationRatio {
					return refuse(placement.CapacityExceeded, id, "")
				}
				if !s.roomy && (n < inv.MinUnit || n > inv.MaxUnit || n%inv.StepSize != 0) {
					return refuse(placement.InventoryRefused, id, "")
				}
			}
		}
	}
	for i := range w.Providers {
		id := w.Providers[i].UUID
		for class, n := range s.used(id) {
			if _, has := s.providers[id].Inventories[class]; !has && n > 0 {
				return refuse(placement.InventoryInUse, id, "")
			}
		}
	}
	return nil
}

func (s *store) writeProvider(w *placement.ProviderWrite) error {
	p, exists := s.providers[w.UUID]
	switch {
	case s.agents[cmp.Or(p.RootUUID, w.UUID)]:
		return refuse(placement.AgentTree, w.UUID, "")
	case w.Create && exists:
		return refuse(placement.DuplicateProvider, w.UUID, "")
	case w.Create:
		p = placement.Provider{UUID: w.UUID, Cell: w.Cell}
	case !exists:
		return refuse(placement.ProviderNotFound, w.UUID, "")
	}
	if w.Generation != nil && *w.Generation != p.Generation {
		return refuse(placement.ProviderGeneration, w.UUID, "")
	}
	for id, other := range s.providers {
		if id != w.UUID && w.Name != nil && other.Name == *w.Name {
			return refuse(placement.DuplicateProvider, "", *w.Name)
		}
		if w.Delete && other.ParentUUID == w.UUID {
			return refuse(placement.ProviderHasChildren, w.UUID, "")
		}
	}
	if w.Delete {
		if len(s.used(w.UUID)) > 0 {
			return refuse(placement.ProviderHasAllocations, w.UUID, "")
		}
		delete(s.providers, w.UUID)
		return nil
	}
	if w.Parent != nil && *w.Parent != "" {
		if _, ok := s.providers[*w.Parent]; !ok {
			return refuse(placement.ParentNotFound, w.UUID, "")
		}
		for up := *w.Parent; up != ""; up = s.providers[up].ParentUUID {
			if up == w.UUID {
				return refuse(placement.ReparentRefused, w.UUID, "")
			}
		}
	}
	p.Generation += w.Raise
	if w.Name != nil {
		p.Name = *w.Name
	}
	if w.Parent != nil {
		p.ParentUUID = *w.Parent
	}
	if w.Inventories != nil {
		p.Inventories = maps.Clone(*w.Inventories)
	}
	if w.Traits != nil {
		p.Traits = slices.Sorted(slices.Values(*w.Traits))
	}
	if w.Aggregates != nil {
		p.Aggregates = slices.Sorted(slices.Values(*w.Aggregates))
	}
	s.providers[w.UUID] = p
	for id, one := range s.providers {
		root := one
		for root.ParentUUID != "" {
			root = s.providers[root.ParentUUID]
		}
		one.RootUUID = root.UUID
		s.providers[id] = one
	}
	return nil
}

func (s *store) writeConsumer(w *placement.ConsumerWrite, raised map[string]bool) error {
	held, exists := s.consumers[w.UUID]
	switch {
	case w.MustExist && !exists:
		return &placement.Refusal{Reason: placement.ConsumerNotFound, Consumer: w.UUID}
	case w.AnyGeneration:
	case exists != (w.Generation != nil), exists && *w.Generation != held.Generation:
		return &placement.Refusal{Reason: placement.ConsumerGeneration, Consumer: w.UUID}
	}
	for id := range w.Allocations {
		if _, ok := s.providers[id]; !ok {
			return refuse(placement.ProviderNotFound, id, "")
		}
		raised[id] = true
	}
	if len(w.Allocations) == 0 {
		for id := range held.Allocations {
			if !w.MustExist {
				raised[id] = true
			}
		}
		delete(s.consumers, w.UUID)
		return nil
	}
	s.consumers[w.UUID] = placement.Consumer{
		UUID: w.UUID, Generation: held.Generation + 1, Allocations: w.Allocations,
		ProjectID: cmp.Or(w.ProjectID, held.ProjectID), UserID: cmp.Or(w.UserID, held.UserID), Type: cmp.Or(w.Type, held.Type, placement.UnknownType),
	}
	return nil
}
