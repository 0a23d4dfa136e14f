package cells

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/placement"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// providersIn reads all pages of one cell's providers.
func (b *Backend) providersIn(ctx context.Context, c *cellclient.Cell, req *cellv1.ListProvidersRequest) (all []*cellv1.ResourceProvider, err error) {
	page := proto.CloneOf(req) // others use req at the same time
	for {
		got, err := ask(ctx, b, c, page, cellv1.CellPlacementClient.ListProviders)
		if err != nil {
			return nil, err
		}
		all = append(all, got.GetProviders()...)
		if !got.GetMore() || len(got.GetProviders()) == 0 {
			return all, nil
		}
		page.After = all[len(all)-1].GetUuid()
	}
}

// Providers asks the cells that are known to have the named providers, and all cells if some are not known.
func (b *Backend) Providers(ctx context.Context, q placement.ProviderQuery) ([]*placement.Provider, error) {
	req := &cellv1.ListProvidersRequest{
		Uuids: q.UUIDs, Name: q.Name, InTree: q.InTree, Traits: filterOf(q.Traits), Aggregates: filterOf(q.Aggregates), Resources: q.Resources,
	}
	if q.UUIDs != nil && len(q.UUIDs) == 0 {
		return nil, nil
	}
	named := q.UUIDs
	if len(named) == 0 && q.InTree != "" {
		named = []string{q.InTree}
	}
	if at, unknown := b.knownCells(named); len(at) > 0 && len(unknown) == 0 {
		holders := slices.Collect(maps.Values(at))
		cells := slices.DeleteFunc(slices.Clone(b.Cells.All), func(c *cellclient.Cell) bool { return !slices.Contains(holders, c) })
		out, silent, err := b.providersOf(ctx, cells, req, len(named))
		if err = cmp.Or(err, silent.err()); err != nil || len(out) >= len(named) {
			return out, err
		}
	}
	want := len(named)
	if want == 0 && q.Name != "" {
		want = 1
	}
	out, silent, err := b.providersOf(ctx, b.Cells.All, req, want)
	switch {
	case err != nil:
		return nil, err
	case want == 0 || len(out) < want && silent.without(b.Cells.Named(q.Cell)):
		return out, silent.allow(ctx, len(b.Cells.All))
	case len(out) < want:
		return out, silent.err()
	}
	return out, nil
}

// providersOf asks cells. With want above 0, a reply with that many providers is enough.
func (b *Backend) providersOf(ctx context.Context, list []*cellclient.Cell, req *cellv1.ListProvidersRequest, want int) ([]*placement.Provider, silent, error) {
	enough := func(got []*cellv1.ResourceProvider) bool { return want > 0 && len(got) >= want }
	replies, missing, err := askThose(ctx, b, list, 0, enough, func(ctx context.Context, c *cellclient.Cell) ([]*cellv1.ResourceProvider, error) {
		return b.providersIn(ctx, c, req)
	})
	if err != nil {
		return nil, nil, err
	}
	var out []*placement.Provider
	for _, r := range replies {
		b.remember(r.Cell, r.Got)
		for _, p := range r.Got {
			out = append(out, providerOf(r.Cell.Name(), p))
		}
	}
	slices.SortFunc(out, func(x, y *placement.Provider) int { return cmp.Compare(x.UUID, y.UUID) })
	return out, missing, nil
}

// maxAsked bounds the uuids of one request; a cell accepts 10,000.
const maxAsked = 5000

// consumersIn reads all pages of one cell's consumers, by uuid.
func (b *Backend) consumersIn(ctx context.Context, c *cellclient.Cell, uuids []string, provider string) (map[string]*cellv1.PlacementConsumer, error) {
	batches := [][]string{nil}
	if len(uuids) > 0 {
		batches = slices.Collect(slices.Chunk(uuids, maxAsked))
	}
	out := map[string]*cellv1.PlacementConsumer{}
	for _, batch := range batches {
		page := &cellv1.ListConsumersRequest{Uuids: batch, ProviderUuid: provider}
		for more := true; more; {
			got, err := ask(ctx, b, c, page, cellv1.CellPlacementClient.ListConsumers)
			if err != nil {
				return nil, err
			}
			for _, one := range got.GetConsumers() {
				out[one.GetUuid()], page.After = one, one.GetUuid()
			}
			more = got.GetMore() && len(got.GetConsumers()) > 0
		}
	}
	return out, nil
}

// Consumers joins what consumers hold in all cells.
func (b *Backend) Consumers(ctx context.Context, q placement.ConsumerQuery) ([]*placement.Consumer, error) {
	uuids := q.UUIDs
	if q.Provider != "" {
		at, err := b.cellsOf(ctx, []string{q.Provider})
		if err != nil || at[q.Provider] == nil {
			return nil, err
		}
		holders, err := b.consumersIn(ctx, at[q.Provider], q.UUIDs, q.Provider)
		if err != nil {
			return nil, unanswered(at[q.Provider], err)
		}
		uuids = slices.Sorted(maps.Keys(holders))
	}
	if len(uuids) == 0 {
		return nil, nil
	}
	held, err := b.held(ctx, uuids, q.Cell, nil, nil)
	if err != nil {
		return nil, err
	}
	var out []*placement.Consumer
	for _, id := range slices.Compact(slices.Sorted(slices.Values(uuids))) {
		if err := b.whole(held, id, q.Cell, false); err != nil {
			return nil, err
		}
		if c := held.join(id); c != nil {
			out = append(out, c)
		}
	}
	return out, nil
}

// Usages adds up the cells' usages; a consumer of two cells counts once.
func (b *Backend) Usages(ctx context.Context, q placement.UsageQuery) ([]placement.Usage, error) {
	replies, missing, err := askThose(ctx, b, b.Cells.All, 0, never, func(ctx context.Context, c *cellclient.Cell) (*cellv1.SumUsagesResponse, error) {
		return ask(ctx, b, c, &cellv1.SumUsagesRequest{ProjectId: q.ProjectID, UserId: q.UserID}, cellv1.CellPlacementClient.SumUsages)
	})
	if err = cmp.Or(err, missing.allow(ctx, len(b.Cells.All))); err != nil {
		return nil, err
	}
	sums := map[string]map[string]int64{}
	consumers := map[string]map[string]bool{}
	for _, r := range replies {
		for _, u := range r.Got.GetUsages() {
			kind := cmp.Or(u.GetConsumerType(), placement.UnknownType)
			if q.Type == placement.AllTypes {
				kind = q.Type
			}
			if q.Type != "" && q.Type != kind {
				continue
			}
			if sums[kind] == nil {
				sums[kind], consumers[kind] = map[string]int64{}, map[string]bool{}
			}
			for class, n := range u.GetResources() {
				sums[kind][class] += n
			}
			for _, id := range u.GetConsumers() {
				consumers[kind][id] = true
			}
		}
	}
	var out []placement.Usage
	for _, kind := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, placement.Usage{Type: kind, Consumers: int64(len(consumers[kind])), Resources: sums[kind]})
	}
	return out, nil
}

// Candidates asks all cells, and gives their candidates in the order of cells, up to the limit.
func (b *Backend) Candidates(ctx context.Context, q placement.CandidateQuery) (*placement.Candidates, error) {
	req := &cellv1.FindCandidatesRequest{Isolate: q.Isolate, RootTraits: filterOf(q.RootTraits), Limit: int32(q.Limit), Nested: q.Nested}
	for _, set := range q.SameSubtrees {
		req.SameSubtrees = append(req.SameSubtrees, &cellv1.PlacementNames{Names: set})
	}
	for _, g := range q.Groups {
		req.Groups = append(req.Groups, &cellv1.CandidateGroup{
			Suffix: g.Suffix, Resources: g.Resources, Traits: filterOf(g.Traits), Aggregates: filterOf(g.Aggregates), InTree: g.InTree,
		})
	}
	replies, missing, err := askThose(ctx, b, b.Cells.All, 0, never, func(ctx context.Context, c *cellclient.Cell) (*cellv1.FindCandidatesResponse, error) {
		return ask(ctx, b, c, req, cellv1.CellPlacementClient.FindCandidates)
	})
	if err = cmp.Or(err, missing.allow(ctx, len(b.Cells.All))); err != nil {
		return nil, err
	}
	out := &placement.Candidates{}
	for _, r := range replies {
		shown := map[string]bool{}
		for _, c := range r.Got.GetCandidates() {
			if q.Limit > 0 && len(out.Requests) == q.Limit {
				break
			}
			one := placement.Candidate{Allocations: allocationsOf(c.GetAllocations()), Mappings: map[string][]string{}}
			for _, m := range c.GetMappings() {
				one.Mappings[m.GetSuffix()] = m.GetProviders()
			}
			for id := range one.Allocations {
				shown[id] = true
			}
			out.Requests = append(out.Requests, one)
		}
		roots := map[string]bool{}
		for _, p := range r.Got.GetProviders() {
			if shown[p.GetUuid()] {
				roots[p.GetRootUuid()] = true
			}
		}
		for _, p := range r.Got.GetProviders() {
			if roots[p.GetRootUuid()] {
				out.Providers = append(out.Providers, providerOf(r.Cell.Name(), p))
			}
		}
	}
	return out, nil
}
