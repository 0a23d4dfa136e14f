package cells

import (
	"context"
	"maps"
	"slices"
	"strings"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/placement"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Write sends a write to the cells of its objects. One cell's write is one transaction of its shard. Allocations over
// several cells are first written in the cells where they take something, then in those where they only give back. If
// a later cell refuses, the earlier ones are put back. Within this gateway, a write waits for other writes of the
// same provider uuids, provider names and consumers, so what it reads in other cells stays true until it is done.
func (b *Backend) Write(ctx context.Context, w placement.Write) error {
	unlock, err := b.locks.lock(ctx, lockKeys(&w))
	if err != nil {
		return err
	}
	defer unlock()
	at, err := b.providerCells(ctx, &w)
	if err != nil {
		return err
	}
	parts, before, err := b.consumerParts(ctx, &w, at)
	if err != nil {
		return err
	}
	for i := range w.Providers {
		part := parts.in(at[w.Providers[i].UUID])
		part.Providers = append(part.Providers, changeOf(&w.Providers[i]))
	}
	if len(w.Providers) > 0 && len(parts) > 1 {
		return &placement.Refusal{Reason: placement.CrossCell, Detail: "the providers are in the cells " + parts.names()}
	}
	for _, r := range before.silent {
		if parts[r.cell] != nil {
			return r.error // before anything is written in other cells
		}
	}
	order := slices.SortedFunc(maps.Keys(parts), func(x, y *cellclient.Cell) int { return writeOrder(parts[x]) - writeOrder(parts[y]) })
	for i, c := range order {
		parts[c].Adopt = w.Adopt
		if err := b.write(ctx, c, parts[c]); err != nil {
			b.undo(ctx, order[:i], parts, before)
			return err
		}
	}
	return nil
}

// writeParts are the parts of a write, by cell.
type writeParts map[*cellclient.Cell]*cellv1.WritePlacementRequest

// in gives the part in a cell, which it adds if there is none.
func (p writeParts) in(c *cellclient.Cell) *cellv1.WritePlacementRequest {
	if p[c] == nil {
		p[c] = &cellv1.WritePlacementRequest{}
	}
	return p[c]
}

func (p writeParts) names() string {
	var names []string
	for c := range p {
		names = append(names, c.Name())
	}
	slices.Sort(names)
	return strings.Join(names, " and ")
}

// writeOrder orders writes that take something before those that only give back.
func writeOrder(r *cellv1.WritePlacementRequest) int {
	if slices.ContainsFunc(r.GetConsumers(), func(c *cellv1.ConsumerChange) bool { return len(c.GetAllocations()) > 0 }) {
		return 0
	}
	return 1
}

func (b *Backend) write(ctx context.Context, c *cellclient.Cell, req *cellv1.WritePlacementRequest) error {
	got, err := ask(ctx, b, c, req, cellv1.CellPlacementClient.WritePlacement)
	if err != nil {
		return cellclient.ChangeError(ctx, c, unanswered(c, err))
	}
	err = refusalOf(got.GetRefusal())
	for _, one := range req.GetConsumers() {
		if err == nil {
			b.homes.written(c, one.GetUuid(), len(one.GetAllocations()) > 0)
		}
	}
	for _, p := range req.GetProviders() {
		if err != nil || p.GetDelete() {
			b.forget(p.GetUuid())
		} else {
			b.remember(c, []*cellv1.ResourceProvider{{Uuid: p.GetUuid()}})
		}
	}
	// If a provider is not in its known cell, the next attempt looks for it in all cells.
	if placement.ReasonOf(err) == placement.ProviderNotFound {
		b.forget(got.GetRefusal().GetProvider())
	}
	return err
}

// undo restores what consumers held in the cells that were written. A failure is left to reconciliation.
func (b *Backend) undo(ctx context.Context, written []*cellclient.Cell, parts writeParts, before holdings) {
	for _, c := range written {
		back := &cellv1.WritePlacementRequest{Adopt: true}
		for _, w := range parts[c].GetConsumers() {
			one := &cellv1.ConsumerChange{Uuid: w.GetUuid(), AnyGeneration: true}
			if was := before.in[c][w.GetUuid()]; was != nil {
				one.ProjectId, one.UserId, one.ConsumerType, one.Allocations = was.GetProjectId(), was.GetUserId(), was.GetConsumerType(), was.GetAllocations()
			}
			back.Consumers = append(back.Consumers, one)
		}
		if err := b.write(context.WithoutCancel(ctx), c, back); err != nil {
			b.Log.Error("allocations of several cells are half written: the cell that was written first could not be put back", "cell", c.Name(), "err", err)
		}
	}
}

// providerCells gives the cells of all providers that a write names, or in which it creates them.
func (b *Backend) providerCells(ctx context.Context, w *placement.Write) (map[string]*cellclient.Cell, error) {
	made := map[string]bool{}
	var names []string
	for i := range w.Providers {
		p := &w.Providers[i]
		made[p.UUID] = made[p.UUID] || p.Create
		if p.Parent != nil && *p.Parent != "" {
			names = append(names, *p.Parent)
		}
		if !p.Create {
			names = append(names, p.UUID)
		}
	}
	for i := range w.Consumers {
		names = slices.AppendSeq(names, maps.Keys(w.Consumers[i].Allocations))
	}
	names = slices.DeleteFunc(names, func(id string) bool { return made[id] })
	at, err := b.cellsOf(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range w.Providers {
		p := &w.Providers[i]
		if at[p.UUID], err = b.providerCell(ctx, p, at); err != nil {
			return nil, err
		}
	}
	for i := range w.Providers {
		if p := &w.Providers[i]; p.Create || p.Name != nil {
			if err := b.refuseIfElsewhere(ctx, p, at[p.UUID]); err != nil {
				return nil, err
			}
		}
	}
	for i := range w.Consumers {
		for _, id := range slices.Sorted(maps.Keys(w.Consumers[i].Allocations)) {
			if at[id] == nil {
				return nil, &placement.Refusal{Reason: placement.ProviderNotFound, Provider: id}
			}
		}
	}
	return at, nil
}

// providerCell gives the cell of a written provider; at has the cells of the others.
func (b *Backend) providerCell(ctx context.Context, p *placement.ProviderWrite, at map[string]*cellclient.Cell) (*cellclient.Cell, error) {
	own := at[p.UUID]
	if !p.Create && own == nil {
		return nil, &placement.Refusal{Reason: placement.ProviderNotFound, Provider: p.UUID}
	}
	if p.Parent == nil || *p.Parent == "" {
		if p.Create {
			return b.newRootCell(ctx, p)
		}
		return own, nil
	}
	parent := at[*p.Parent]
	switch {
	case parent == nil:
		return nil, &placement.Refusal{Reason: placement.ParentNotFound, Provider: *p.Parent}
	case !p.Create && parent != own:
		return nil, &placement.Refusal{Reason: placement.ReparentRefused, Provider: p.UUID, Detail: "the parent is in another cell"}
	}
	return parent, nil
}

// refuseIfElsewhere refuses a new or renamed provider whose uuid or name another cell has: the new, empty provider
// would hide the other one. A cell that does not answer within the patience is ignored, so that it does not prevent
// the registration of other cells' hosts.
func (b *Backend) refuseIfElsewhere(ctx context.Context, p *placement.ProviderWrite, own *cellclient.Cell) error {
	type had struct {
		own  bool // ends the wait for the others, as a cell that has the provider does
		list []*cellv1.ResourceProvider
	}
	enough := func(x had) bool { return x.own || len(x.list) > 0 }
	replies, missing, err := askThose(ctx, b, b.Cells.All, b.cfg.Patience, enough, func(ctx context.Context, c *cellclient.Cell) (had, error) {
		if c == own {
			return had{own: true}, nil
		}
		list, err := b.providersIn(ctx, c, &cellv1.ListProvidersRequest{Uuids: []string{p.UUID}})
		if err == nil && len(list) == 0 && p.Name != nil {
			list, err = b.providersIn(ctx, c, &cellv1.ListProvidersRequest{Name: *p.Name})
		}
		return had{list: list}, err
	})
	if err != nil {
		return err
	}
	for _, one := range missing {
		placement.NoteSilentCell(ctx, one.cell.Name())
	}
	for _, r := range replies {
		if len(r.Got.list) == 0 {
			continue
		}
		refusal := &placement.Refusal{Reason: placement.DuplicateProvider, Detail: "cell " + r.Cell.Name() + " has it"}
		if x := r.Got.list[0]; x.GetUuid() == p.UUID {
			refusal.Provider = p.UUID
		} else {
			refusal.Name = x.GetName()
		}
		return refusal
	}
	return nil
}

// consumerParts splits what consumers are to hold by cell, and checks generations against what all cells have.
func (b *Backend) consumerParts(ctx context.Context, w *placement.Write, at map[string]*cellclient.Cell) (writeParts, holdings, error) {
	parts, none := writeParts{}, holdings{}
	if len(w.Consumers) == 0 {
		return parts, none, nil
	}
	var uuids []string
	writes, made := map[*cellclient.Cell]bool{}, map[string]bool{}
	for i := range w.Consumers {
		c := &w.Consumers[i]
		uuids = append(uuids, c.UUID)
		if !c.AnyGeneration && c.Generation == nil {
			made[c.UUID] = true
		}
		for id := range c.Allocations {
			writes[at[id]] = true
		}
	}
	before, err := b.held(ctx, uuids, w.Cell, writes, made)
	if err != nil {
		return nil, none, err
	}
	for i := range w.Consumers {
		c := &w.Consumers[i]
		if err := b.whole(before, c.UUID, w.Cell, made[c.UUID]); err != nil {
			return nil, none, err
		}
		joined := before.join(c.UUID)
		generation := int64(0)
		if joined != nil {
			generation = joined.Generation
		}
		switch {
		case c.MustExist && joined == nil:
			return nil, none, &placement.Refusal{Reason: placement.ConsumerNotFound, Consumer: c.UUID}
		case c.AnyGeneration:
		case (joined == nil) != (c.Generation == nil), joined != nil && *c.Generation != generation:
			return nil, none, &placement.Refusal{Reason: placement.ConsumerGeneration, Consumer: c.UUID}
		}
		for cell, part := range b.splitConsumer(c, at, before, generation) {
			in := parts.in(cell)
			in.Consumers = append(in.Consumers, part)
		}
	}
	return parts, before, nil
}

// splitConsumer gives the parts of a consumer in the cells where it holds something before or after the write. Each
// part is written over the cell's own generation; afterwards all cells have the same generation.
func (b *Backend) splitConsumer(c *placement.ConsumerWrite, at map[string]*cellclient.Cell, before holdings, generation int64) map[*cellclient.Cell]*cellv1.ConsumerChange {
	out := map[*cellclient.Cell]*cellv1.ConsumerChange{}
	part := func(cell *cellclient.Cell) *cellv1.ConsumerChange {
		if out[cell] == nil {
			was := before.in[cell][c.UUID]
			out[cell] = &cellv1.ConsumerChange{
				Uuid: c.UUID, AnyGeneration: c.AnyGeneration, ProjectId: c.ProjectID, UserId: c.UserID, ConsumerType: c.Type, MustExist: c.MustExist,
				Raise: c.Raise + generation - was.GetGeneration(),
			}
			if was != nil {
				out[cell].Generation = new(was.GetGeneration())
			}
		}
		return out[cell]
	}
	for cell, by := range before.in {
		if by[c.UUID] != nil {
			part(cell)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Allocations)) {
		p := part(at[id])
		for _, class := range slices.Sorted(maps.Keys(c.Allocations[id])) {
			p.Allocations = append(p.Allocations, &cellv1.PlacementAllocation{ProviderUuid: id, ResourceClass: class, Amount: c.Allocations[id][class]})
		}
	}
	return out
}
