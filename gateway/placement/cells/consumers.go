package cells

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/placement"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// holdings are what consumers hold, by cell, in the cells that answered.
type holdings struct {
	in     map[*cellclient.Cell]map[string]*cellv1.PlacementConsumer
	silent silent
}

// held asks all cells what consumers hold. It waits for the cells that matter until their budget ends: near, if it is
// given, and those that get the consumers' allocations (writes). Without near, it also waits for all cells while some
// consumer is neither found nor new (made). For any other cell it waits until patience has passed.
func (b *Backend) held(ctx context.Context, uuids []string, near string, writes map[*cellclient.Cell]bool, made map[string]bool) (holdings, error) {
	type answer struct {
		cell *cellclient.Cell
		got  map[string]*cellv1.PlacementConsumer
	}
	found, answered := maps.Clone(made), map[*cellclient.Cell]bool{}
	if found == nil {
		found = map[string]bool{}
	}
	nearby := b.Cells.Named(near)
	settled := func(a answer) bool {
		answered[a.cell] = true
		for id := range a.got {
			found[id] = true
		}
		for c := range writes {
			if !answered[c] {
				return false
			}
		}
		if nearby != nil {
			return answered[nearby]
		}
		return !slices.ContainsFunc(uuids, func(id string) bool { return !found[id] })
	}
	replies, missing, err := askThose(ctx, b, b.Cells.All, b.cfg.Patience, settled, func(ctx context.Context, c *cellclient.Cell) (answer, error) {
		got, err := b.consumersIn(ctx, c, uuids, "")
		return answer{c, got}, err
	})
	out := holdings{map[*cellclient.Cell]map[string]*cellv1.PlacementConsumer{}, missing}
	for _, r := range replies {
		out.in[r.Cell] = r.Got.got
	}
	if err == nil {
		b.homes.learn(out, uuids)
	}
	return out, err
}

// whole gives nil if the cells that answered have all that a consumer holds, as far as this gateway can know: a
// consumer is in one cell (docs/adr/0005), unless this gateway has seen it in another. A consumer that no cell has
// may be in a silent cell, unless the cell near has answered, or isNew says that its writer has just made it.
func (b *Backend) whole(h holdings, uuid, near string, isNew bool) error {
	found := slices.ContainsFunc(slices.Collect(maps.Values(h.in)), func(by map[string]*cellv1.PlacementConsumer) bool { return by[uuid] != nil })
	c := b.Cells.Named(near)
	_, nearAnswered := h.in[c]
	seen := b.homes.recall(uuid)
	for _, r := range h.silent {
		if slices.Contains(seen, r.cell) || !found && !isNew && (near == "" || !nearAnswered) {
			return r.error
		}
	}
	return nil
}

// join gives a consumer over all cells; nil if it holds nothing. Its generation is the highest of the cells'.
func (h holdings) join(uuid string) *placement.Consumer {
	var out *placement.Consumer
	for _, by := range h.in {
		one := by[uuid]
		if one == nil {
			continue
		}
		if out == nil {
			out = &placement.Consumer{UUID: uuid, Allocations: placement.Allocations{}}
		}
		if one.GetGeneration() > out.Generation {
			out.Generation, out.ProjectID, out.UserID, out.Type = one.GetGeneration(), one.GetProjectId(), one.GetUserId(), cmp.Or(one.GetConsumerType(), placement.UnknownType)
		}
		addAllocations(out.Allocations, one.GetAllocations())
	}
	return out
}

// homes remember in which cells this gateway has seen the consumers that it recently read or wrote, best effort. Safe
// for concurrent use.
type homes struct {
	mu sync.Mutex
	// recent takes new entries. When it is full, it becomes older, and the entries of older are forgotten.
	recent, older map[string][]*cellclient.Cell
}

// maxHomes bounds each of the two maps: 10 MB in all.
const maxHomes = 50_000

func (h *homes) recall(consumer string) []*cellclient.Cell {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seen, ok := h.recent[consumer]; ok {
		return seen
	}
	return h.older[consumer]
}

// learn records where the cells that answered have consumers; for the other cells it keeps what it knew.
func (h *homes) learn(found holdings, consumers []string) {
	for _, id := range consumers {
		seen := slices.DeleteFunc(slices.Clone(h.recall(id)), func(c *cellclient.Cell) bool { return found.in[c] != nil })
		for c, by := range found.in {
			if by[id] != nil {
				seen = append(seen, c)
			}
		}
		h.set(id, seen)
	}
}

// written records that a consumer, after a write, holds something in a cell, or nothing there.
func (h *homes) written(c *cellclient.Cell, consumer string, holds bool) {
	seen := slices.DeleteFunc(slices.Clone(h.recall(consumer)), func(o *cellclient.Cell) bool { return o == c })
	if holds {
		seen = append(seen, c)
	}
	h.set(consumer, seen)
}

func (h *homes) set(consumer string, seen []*cellclient.Cell) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(seen) == 0 {
		delete(h.recent, consumer)
		delete(h.older, consumer)
		return
	}
	if len(h.recent) >= maxHomes {
		h.recent, h.older = nil, h.recent
	}
	if h.recent == nil {
		h.recent = map[string][]*cellclient.Cell{}
	}
	h.recent[consumer] = seen
}
