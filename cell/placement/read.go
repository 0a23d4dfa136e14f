package placement

import (
	"context"
	"maps"
	"slices"
	"strings"

	"cellgate/cell/replica"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

// Service serves gateways.
type Service struct {
	cellv1.UnimplementedCellPlacementServer
	state  *replica.State
	loaded func() error
	trees  treeCache
}

// New makes the service of a replica; loaded returns nil once the whole table is loaded.
func New(state *replica.State, loaded func() error) *Service {
	return &Service{state: state, loaded: loaded}
}

// upToDate waits until the rows have everything that any replica acknowledged before the call. A client of the
// Placement API reads what it has just written, and not always at the same replica.
func (s *Service) upToDate(ctx context.Context) error {
	if err := s.loaded(); err != nil {
		return err
	}
	if !s.state.Journal.HasOthers() {
		return s.state.Journal.AwaitFresh(ctx)
	}
	if err := s.state.Journal.CatchUp(ctx); err != nil && ctx.Err() == nil {
		return replica.StoreFault(err)
	}
	return ctx.Err()
}

// maxPage bounds the rows of a page: a provider with some hundred traits takes 5 KB.
const maxPage = 400

// ListProviders filters the trees' providers.
func (s *Service) ListProviders(ctx context.Context, req *cellv1.ListProvidersRequest) (*cellv1.ListProvidersResponse, error) {
	if err := s.upToDate(ctx); err != nil {
		return nil, err
	}
	var found []*cellv1.ResourceProvider
	for _, t := range s.treesFor(req) {
		for i := range t.Host.Providers {
			p := &t.Host.Providers[i]
			if p.UUID > req.GetAfter() && matches(t, p, req) {
				found = append(found, providerOf(t, p))
			}
		}
	}
	slices.SortFunc(found, func(a, b *cellv1.ResourceProvider) int { return strings.Compare(a.GetUuid(), b.GetUuid()) })
	n := min(len(found), maxPage)
	return &cellv1.ListProvidersResponse{Providers: found[:n], More: n < len(found)}, nil
}

// treesFor returns the trees that may contain what a request asks for, each once.
func (s *Service) treesFor(req *cellv1.ListProvidersRequest) []replica.TreeRow {
	var named []string
	switch {
	case len(req.GetUuids()) > 0:
		named = req.GetUuids()
	case req.GetName() != "":
		named = s.state.Rows.ProvidersNamed(req.GetName())
	case req.GetInTree() != "":
		named = []string{req.GetInTree()}
	default:
		return s.state.Rows.Trees()
	}
	trees := map[string]replica.TreeRow{}
	for _, id := range named {
		if t, ok := s.state.Rows.TreeOf(id); ok {
			trees[t.Host.UUID] = t
		}
	}
	return slices.Collect(maps.Values(trees))
}

func matches(t replica.TreeRow, p *shard.Provider, req *cellv1.ListProvidersRequest) bool {
	if len(req.GetUuids()) > 0 && !slices.Contains(req.GetUuids(), p.UUID) || req.GetName() != "" && req.GetName() != p.Name {
		return false
	}
	if in := req.GetInTree(); in != "" && !slices.ContainsFunc(t.Host.Providers, func(o shard.Provider) bool { return o.UUID == in }) {
		return false
	}
	for class, amount := range req.GetResources() {
		i := slices.IndexFunc(p.Inventories, func(inv shard.Inventory) bool { return inv.ResourceClass == class })
		if i < 0 || !fits(p.Inventories[i], t.Usage.Of(p.UUID, class), amount) {
			return false
		}
	}
	return accepts(req.GetTraits(), p.Traits) && accepts(req.GetAggregates(), p.Aggregates)
}

func fits(inv shard.Inventory, used, amount int64) bool {
	return amount >= inv.MinUnit && amount <= inv.MaxUnit && amount%inv.StepSize == 0 && amount <= inv.Free(used)
}

func accepts(f *cellv1.NameFilter, names []string) bool {
	for _, set := range f.GetAnyOf() {
		if !slices.ContainsFunc(set.GetNames(), func(n string) bool { return slices.Contains(names, n) }) {
			return false
		}
	}
	return !slices.ContainsFunc(f.GetForbidden(), func(n string) bool { return slices.Contains(names, n) })
}

func providerOf(t replica.TreeRow, p *shard.Provider) *cellv1.ResourceProvider {
	out := &cellv1.ResourceProvider{
		Uuid: p.UUID, Name: p.Name, RootUuid: t.Host.UUID, ParentUuid: p.ParentUUID, Generation: p.Generation,
		Traits: slices.Sorted(slices.Values(p.Traits)), Aggregates: slices.Sorted(slices.Values(p.Aggregates)),
	}
	for _, i := range p.Inventories {
		out.Inventories = append(out.Inventories, &cellv1.PlacementInventory{
			ResourceClass: i.ResourceClass, Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize,
			AllocationRatio: i.AllocationRatio, Used: t.Usage.Of(p.UUID, i.ResourceClass),
		})
	}
	return out
}

// ListConsumers returns consumers, each with the sum of its live claims.
func (s *Service) ListConsumers(ctx context.Context, req *cellv1.ListConsumersRequest) (*cellv1.ListConsumersResponse, error) {
	if err := s.upToDate(ctx); err != nil {
		return nil, err
	}
	uuids := req.GetUuids()
	if id := req.GetProviderUuid(); id != "" {
		t, ok := s.state.Rows.TreeOf(id)
		if !ok {
			return &cellv1.ListConsumersResponse{}, nil
		}
		holders := map[string]bool{}
		for _, c := range s.state.Rows.ClaimsOn(t.Host.UUID) {
			if slices.ContainsFunc(c.Allocations, func(a shard.Used) bool { return a.ProviderUUID == id }) {
				holders[c.ConsumerUUID] = len(uuids) == 0 || slices.Contains(uuids, c.ConsumerUUID)
			}
		}
		maps.DeleteFunc(holders, func(_ string, asked bool) bool { return !asked })
		uuids = slices.Collect(maps.Keys(holders))
	}
	slices.Sort(uuids)
	out := &cellv1.ListConsumersResponse{}
	for _, id := range slices.Compact(uuids) {
		if id <= req.GetAfter() {
			continue
		}
		if out.More = len(out.Consumers) == maxPage; out.More {
			break
		}
		if c := s.consumer(id); c != nil {
			out.Consumers = append(out.Consumers, c)
		}
	}
	return out, nil
}

// consumer sums a consumer's live claims; nil if it has none. Allocations in trees that are not shown
// count, too.
func (s *Service) consumer(id string) *cellv1.PlacementConsumer {
	claims := s.state.Rows.ClaimsOfConsumers([]string{id})
	if len(claims) == 0 {
		return nil
	}
	out := &cellv1.PlacementConsumer{Uuid: id}
	sum := map[shard.Used]int64{}
	newest := claims[0]
	for _, c := range claims {
		if c.ConsumerGeneration >= newest.ConsumerGeneration {
			newest = c
		}
		for _, a := range c.Allocations {
			sum[shard.Used{ProviderUUID: a.ProviderUUID, ResourceClass: a.ResourceClass}] += a.Amount
		}
	}
	out.Generation, out.ProjectId, out.UserId, out.ConsumerType = newest.ConsumerGeneration, newest.ProjectID, newest.UserID, newest.ConsumerType
	for k, n := range sum {
		out.Allocations = append(out.Allocations, &cellv1.PlacementAllocation{ProviderUuid: k.ProviderUUID, ResourceClass: k.ResourceClass, Amount: n})
	}
	slices.SortFunc(out.Allocations, func(a, b *cellv1.PlacementAllocation) int {
		return strings.Compare(a.GetProviderUuid()+" "+a.GetResourceClass(), b.GetProviderUuid()+" "+b.GetResourceClass())
	})
	return out
}

// SumUsages sums the live claims of a project by consumer type.
func (s *Service) SumUsages(ctx context.Context, req *cellv1.SumUsagesRequest) (*cellv1.SumUsagesResponse, error) {
	if err := s.upToDate(ctx); err != nil {
		return nil, err
	}
	byType := map[string]*cellv1.TypeUsage{}
	for _, c := range s.state.Rows.LiveClaims() {
		if c.ProjectID != req.GetProjectId() || req.GetUserId() != "" && c.UserID != req.GetUserId() {
			continue
		}
		u := byType[c.ConsumerType]
		if u == nil {
			u = &cellv1.TypeUsage{ConsumerType: c.ConsumerType, Resources: map[string]int64{}}
			byType[c.ConsumerType] = u
		}
		u.Consumers = append(u.Consumers, c.ConsumerUUID)
		for _, a := range c.Allocations {
			u.Resources[a.ResourceClass] += a.Amount
		}
	}
	out := &cellv1.SumUsagesResponse{}
	for _, kind := range slices.Sorted(maps.Keys(byType)) {
		u := byType[kind]
		slices.Sort(u.Consumers)
		u.Consumers = slices.Compact(u.Consumers)
		out.Usages = append(out.Usages, u)
	}
	return out, nil
}

// ListNames gives the custom names.
func (s *Service) ListNames(ctx context.Context, _ *cellv1.ListNamesRequest) (*cellv1.ListNamesResponse, error) {
	if err := s.upToDate(ctx); err != nil {
		return nil, err
	}
	return &cellv1.ListNamesResponse{Classes: s.state.Rows.CustomNames(shard.ClassName), Traits: s.state.Rows.CustomNames(shard.TraitName)}, nil
}
