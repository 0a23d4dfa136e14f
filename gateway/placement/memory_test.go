package placement

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// memory is the simplest Backend, with which the others are compared.
type memory struct {
	mu    sync.Mutex
	state state
	names map[NameKind]map[string]bool
}

// state is what a Write changes, or leaves as it was.
type state struct {
	providers map[string]*Provider
	consumers map[string]*Consumer
}

// NewMemory returns an empty memory backend to tests in package placement_test.
func NewMemory() Backend { return newMemory() }

func newMemory() *memory {
	return &memory{state: state{map[string]*Provider{}, map[string]*Consumer{}}, names: map[NameKind]map[string]bool{ClassName: {}, TraitName: {}}}
}

func (s state) clone() state {
	out := state{map[string]*Provider{}, map[string]*Consumer{}}
	for id, p := range s.providers {
		out.providers[id] = p.clone()
	}
	for id, held := range s.consumers {
		out.consumers[id] = held.clone()
	}
	return out
}

func (p *Provider) clone() *Provider {
	out := *p
	out.Inventories = maps.Clone(p.Inventories)
	out.Traits, out.Aggregates = slices.Clone(p.Traits), slices.Clone(p.Aggregates)
	out.Used = maps.Clone(p.Used)
	return &out
}

func (c *Consumer) clone() *Consumer {
	out := *c
	out.Allocations = Allocations{}
	for id, resources := range c.Allocations {
		out.Allocations[id] = maps.Clone(resources)
	}
	return &out
}

// used sums what consumers hold of a provider.
func (s state) used(provider string) map[string]int64 {
	out := map[string]int64{}
	for _, held := range s.consumers {
		for class, n := range held.Allocations[provider] {
			out[class] += n
		}
	}
	return out
}

// all gives copies of the providers with their usage, by uuid.
func (s state) all() []*Provider {
	var out []*Provider
	for _, id := range keys(s.providers) {
		p := s.providers[id].clone()
		p.Used = s.used(id)
		out = append(out, p)
	}
	return out
}

// fits reports whether an amount can be allocated of a provider.
func (p *Provider) fits(class string, n int64) bool {
	i, ok := p.Inventories[class]
	return ok && n >= i.MinUnit && n <= i.MaxUnit && n%i.StepSize == 0 && p.Used[class]+n <= i.capacity()
}

func accepts(f NameFilter, names []string) bool {
	for _, any := range f.AnyOf {
		if !slices.ContainsFunc(any, func(n string) bool { return slices.Contains(names, n) }) {
			return false
		}
	}
	return !slices.ContainsFunc(f.Forbidden, func(n string) bool { return slices.Contains(names, n) })
}

func (m *memory) Providers(_ context.Context, q ProviderQuery) ([]*Provider, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*Provider
	for _, p := range m.state.all() {
		inTree := q.InTree == "" || m.state.providers[q.InTree] != nil && m.state.providers[q.InTree].RootUUID == p.RootUUID
		fits := !slices.ContainsFunc(keys(q.Resources), func(class string) bool { return !p.fits(class, q.Resources[class]) })
		if (q.UUIDs == nil || slices.Contains(q.UUIDs, p.UUID)) && (q.Name == "" || q.Name == p.Name) && inTree && fits &&
			accepts(q.Traits, p.Traits) && accepts(q.Aggregates, p.Aggregates) {
			out = append(out, p)
		}
	}
	return out, nil
}

func (m *memory) Consumers(_ context.Context, q ConsumerQuery) ([]*Consumer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*Consumer
	for _, id := range keys(m.state.consumers) {
		held := m.state.consumers[id]
		if (q.UUIDs == nil || slices.Contains(q.UUIDs, id)) && (q.Provider == "" || held.Allocations[q.Provider] != nil) {
			out = append(out, held.clone())
		}
	}
	return out, nil
}

func (m *memory) Usages(_ context.Context, q UsageQuery) ([]Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byType := map[string]Usage{}
	for _, held := range m.state.consumers {
		if held.ProjectID != q.ProjectID || q.UserID != "" && held.UserID != q.UserID || q.Type != "" && q.Type != AllTypes && held.Type != q.Type {
			continue
		}
		kind := held.Type
		if q.Type == AllTypes {
			kind = AllTypes
		}
		u := byType[kind]
		u.Type, u.Consumers = kind, u.Consumers+1
		if u.Resources == nil {
			u.Resources = map[string]int64{}
		}
		for _, resources := range held.Allocations {
			for class, n := range resources {
				u.Resources[class] += n
			}
		}
		byType[kind] = u
	}
	var out []Usage
	for _, kind := range keys(byType) {
		out = append(out, byType[kind])
	}
	return out, nil
}

func (m *memory) Candidates(_ context.Context, q CandidateQuery) (*Candidates, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return findCandidates(m.state.all(), q)
}

func (m *memory) Names(_ context.Context, kind NameKind) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return keys(m.names[kind]), nil
}

func (m *memory) HasName(_ context.Context, kind NameKind, name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.names[kind][name], nil
}

func (m *memory) PutName(_ context.Context, kind NameKind, name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	created := !m.names[kind][name]
	m.names[kind][name] = true
	return created, nil
}

func (m *memory) DeleteName(_ context.Context, kind NameKind, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	missing, inUse := TraitNotFound, TraitInUse
	if kind == ClassName {
		missing, inUse = ClassNotFound, ClassInUse
	}
	if !m.names[kind][name] {
		return &Refusal{Reason: missing, Name: name}
	}
	for _, p := range m.state.providers {
		_, has := p.Inventories[name]
		if kind == ClassName && has || kind == TraitName && slices.Contains(p.Traits, name) {
			return &Refusal{Reason: inUse, Name: name}
		}
	}
	delete(m.names[kind], name)
	return nil
}

func (m *memory) Write(_ context.Context, w Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.state.clone()
	if err := next.write(w); err != nil {
		return err
	}
	m.state = next
	return nil
}

func (s state) write(w Write) error {
	for _, one := range w.Consumers {
		held := s.consumers[one.UUID]
		switch {
		case one.MustExist && held == nil:
			return &Refusal{Reason: ConsumerNotFound, Consumer: one.UUID}
		case one.AnyGeneration:
		case (held == nil) != (one.Generation == nil), held != nil && *one.Generation != held.Generation:
			return &Refusal{Reason: ConsumerGeneration, Consumer: one.UUID}
		}
	}
	for _, one := range w.Providers {
		if err := s.writeProvider(one); err != nil {
			return err
		}
	}
	raised, err := s.writeConsumers(w.Consumers)
	if err != nil {
		return err
	}
	if !w.Adopt {
		for id, yes := range raised {
			if yes {
				s.providers[id].Generation++
			}
		}
		if err := s.checkAllocations(w.Consumers); err != nil {
			return err
		}
	}
	for _, one := range w.Providers {
		p := s.providers[one.UUID]
		if p == nil {
			continue
		}
		used := s.used(p.UUID)
		gone := slices.DeleteFunc(keys(used), func(class string) bool { _, has := p.Inventories[class]; return has || used[class] == 0 })
		if len(gone) > 0 {
			return &Refusal{Reason: InventoryInUse, Provider: p.UUID, Class: strings.Join(gone, ", ")}
		}
	}
	return nil
}

func (s state) writeProvider(w ProviderWrite) error {
	p := s.providers[w.UUID]
	refuse := func(r Reason) error { return &Refusal{Reason: r, Provider: w.UUID} }
	if w.Parent != nil && *w.Parent != "" && s.providers[*w.Parent] == nil {
		return refuse(ParentNotFound)
	}
	switch {
	case w.Create && p != nil:
		return refuse(DuplicateProvider)
	case w.Create:
		p = &Provider{UUID: w.UUID, RootUUID: w.UUID, Cell: w.Cell}
	case p == nil:
		return refuse(ProviderNotFound)
	}
	if w.Generation != nil && *w.Generation != p.Generation {
		return refuse(ProviderGeneration)
	}
	for _, other := range s.providers {
		if other.UUID != p.UUID && w.Name != nil && other.Name == *w.Name {
			return &Refusal{Reason: DuplicateProvider, Name: *w.Name}
		}
		if w.Delete && other.ParentUUID == p.UUID {
			return refuse(ProviderHasChildren)
		}
	}
	if w.Delete {
		if len(s.used(p.UUID)) > 0 {
			return refuse(ProviderHasAllocations)
		}
		delete(s.providers, p.UUID)
		return nil
	}
	if w.Parent != nil && *w.Parent != "" {
		for up := s.providers[*w.Parent]; up != nil; up = s.providers[up.ParentUUID] {
			if up.UUID == p.UUID {
				return &Refusal{Reason: ReparentRefused, Provider: w.UUID, Detail: "a loop"}
			}
		}
	}
	s.providers[p.UUID] = p
	p.Generation += w.Raise
	if w.Name != nil {
		p.Name = *w.Name
	}
	if w.Parent != nil {
		p.ParentUUID = *w.Parent
		for _, one := range s.providers {
			root := one
			for root.ParentUUID != "" {
				root = s.providers[root.ParentUUID]
			}
			one.RootUUID = root.UUID
		}
	}
	if w.Inventories != nil {
		p.Inventories = maps.Clone(*w.Inventories)
	}
	if w.Traits != nil {
		p.Traits = slices.Clone(*w.Traits)
	}
	if w.Aggregates != nil {
		p.Aggregates = slices.Clone(*w.Aggregates)
	}
	return nil
}

// writeConsumers gives the providers whose generations are raised.
func (s state) writeConsumers(list []ConsumerWrite) (raised map[string]bool, err error) {
	for _, w := range list {
		for _, id := range keys(w.Allocations) {
			if s.providers[id] == nil {
				return nil, &Refusal{Reason: ProviderNotFound, Provider: id}
			}
		}
	}
	raised = map[string]bool{}
	for _, w := range list {
		held := s.consumers[w.UUID]
		if held == nil {
			held = &Consumer{UUID: w.UUID, Type: UnknownType}
		}
		if len(w.Allocations) == 0 {
			for id := range held.Allocations {
				raised[id] = raised[id] || !w.MustExist
			}
			delete(s.consumers, w.UUID)
			continue
		}
		held.Generation += 1 + w.Raise
		held.ProjectID, held.UserID, held.Type = cmp.Or(w.ProjectID, held.ProjectID), cmp.Or(w.UserID, held.UserID), cmp.Or(w.Type, held.Type)
		held.Allocations = w.Allocations
		s.consumers[w.UUID] = held.clone()
		for id := range w.Allocations {
			raised[id] = true
		}
	}
	return raised, nil
}

func (s state) checkAllocations(list []ConsumerWrite) error {
	for _, w := range list {
		for _, id := range keys(w.Allocations) {
			p, used := s.providers[id], s.used(id)
			for _, class := range keys(w.Allocations[id]) {
				n := w.Allocations[id][class]
				i, has := p.Inventories[class]
				reason := Reason("")
				switch {
				case !has:
					reason = InventoryMissing
				case n < i.MinUnit || n > i.MaxUnit || n%i.StepSize != 0:
					reason = InventoryRefused
				case used[class] > i.capacity():
					reason = CapacityExceeded
				}
				if reason != "" {
					return &Refusal{Reason: reason, Provider: id, Class: class}
				}
			}
		}
	}
	return nil
}
