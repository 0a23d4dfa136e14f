package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// checkConsumer refuses a write whose Generation is not the consumer's.
func (p *placementWrite) checkConsumer(w *ConsumerWrite) *Outcome {
	generation := p.consumerGeneration(w.UUID)
	switch {
	case w.MustExist && generation == 0:
		return denied(PlacementRefusal{Reason: ConsumerNotFound, Consumer: w.UUID})
	case w.AnyGeneration, w.Generation == nil && generation == 0, w.Generation != nil && generation > 0 && *w.Generation == generation:
		return nil
	}
	return denied(PlacementRefusal{Reason: ConsumerGeneration, Consumer: w.UUID, Detail: fmt.Sprintf("it is %d", generation)})
}

// consumerGeneration is the highest of the consumer's live claims; 0 for none. A claim gets the next one when it is
// made, swapped or transferred. When a claim ends, the others keep theirs.
func (t *transaction) consumerGeneration(consumer string) (highest int64) {
	for _, id := range t.view.LiveByConsumer[consumer] {
		highest = max(highest, t.view.Claims[id].ConsumerGeneration)
	}
	return highest
}

// writeConsumers writes the consumers' new allocations.
func (p *placementWrite) writeConsumers(list []ConsumerWrite, adopt bool) *Outcome {
	given := map[string]*Claim{} // claims given up by consumers of the write, by id
	kept := make([]map[string]*Claim, len(list))
	next := make([]int64, len(list))
	for i := range list {
		w := &list[i]
		next[i] = p.consumerGeneration(w.UUID) + 1 + w.Raise
		kept[i] = p.claimsByRoot(w)
		for _, id := range slices.Sorted(slices.Values(p.view.LiveByConsumer[w.UUID])) {
			c := p.view.Claims[id]
			if kept[i][c.HostUUID] != c {
				given[id] = c
			}
			if len(w.Allocations) == 0 && !w.MustExist {
				p.raiseAll(c.Allocations)
			}
		}
	}
	var fresh []*Claim
	for i := range list {
		w := &list[i]
		owner := p.ownerOf(w, next[i])
		for _, root := range w.Allocations {
			h := p.view.Hosts[root.HostUUID]
			if o := p.checkProviders(h, root.Allocations); o != nil {
				return o
			}
			p.raiseAll(root.Allocations)
			old := kept[i][root.HostUUID]
			if old == nil {
				old = takeEqual(given, root, "")
			} else if back := takeEqual(given, root, w.UUID); back != nil {
				given[old.ClaimID], old = old, back
			}
			if old == nil {
				fresh = append(fresh, p.newAllocation(h, w.UUID, owner, root.Allocations))
				continue
			}
			p.rewriteClaim(old, w.UUID, owner, root.Allocations)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(given)) {
		p.setState(given[id], Released)
	}
	for _, c := range fresh {
		p.moveUsage(c.HostUUID, nil, c)
		p.putClaim(c)
	}
	if !adopt {
		p.raiseGenerations()
	}
	return p.checkCapacity(list, adopt)
}

// claimOwner is what a claim records of its consumer.
type claimOwner struct {
	project, user, kind string
	generation          int64
}

func (p *placementWrite) ownerOf(w *ConsumerWrite, generation int64) claimOwner {
	o := claimOwner{w.ProjectID, w.UserID, w.Type, generation}
	for _, id := range slices.Sorted(slices.Values(p.view.LiveByConsumer[w.UUID])) {
		c := p.view.Claims[id]
		o.project, o.user, o.kind = cmp.Or(o.project, c.ProjectID), cmp.Or(o.user, c.UserID), cmp.Or(o.kind, c.ConsumerType)
	}
	return o
}

// claimsByRoot gives the claim that stays on each root of the new allocations, unless another consumer gives back an
// equal one that was transferred from this consumer. Of several on one root, equal allocations win, then claims that
// move another, then the lowest id.
func (p *placementWrite) claimsByRoot(w *ConsumerWrite) map[string]*Claim {
	kept := map[string]*Claim{}
	for _, root := range w.Allocations {
		var here []*Claim
		for _, id := range p.view.LiveByConsumer[w.UUID] {
			if c := p.view.Claims[id]; c.HostUUID == root.HostUUID {
				here = append(here, c)
			}
		}
		if len(here) == 0 {
			continue
		}
		kept[root.HostUUID] = slices.MinFunc(here, func(a, b *Claim) int {
			return cmp.Or(
				cmp.Compare(rank(!sameAllocations(a.Allocations, root.Allocations)), rank(!sameAllocations(b.Allocations, root.Allocations))),
				cmp.Compare(rank(a.Moves == ""), rank(b.Moves == "")), cmp.Compare(a.ClaimID, b.ClaimID))
		})
	}
	return kept
}

func rank(is bool) int {
	if is {
		return 1
	}
	return 0
}

// takeEqual removes from given a claim with the same allocations on the same root, and gives it; nil for none. from,
// unless empty, is the consumer that it must have been transferred from.
func takeEqual(given map[string]*Claim, root RootAllocations, from string) *Claim {
	var first *Claim
	for _, c := range given {
		if c.HostUUID == root.HostUUID && (from == "" || c.TransferredFrom == from) && sameAllocations(c.Allocations, root.Allocations) && (first == nil || c.ClaimID < first.ClaimID) {
			first = c
		}
	}
	if first != nil {
		delete(given, first.ClaimID)
	}
	return first
}

func (p *placementWrite) raiseAll(allocations []Used) {
	for _, a := range allocations {
		p.raise[a.ProviderUUID] = 1
	}
}

// checkProviders refuses allocations of unknown providers. Amounts are checked after everything is written.
func (p *placementWrite) checkProviders(h *Host, allocations []Used) *Outcome {
	for _, a := range allocations {
		if h == nil || h.TreeSource() == TreeOfImporter || h.provider(a.ProviderUUID) == nil {
			return denied(PlacementRefusal{Reason: ProviderNotFound, Provider: a.ProviderUUID})
		}
	}
	return nil
}

// rewriteClaim confirms a claim with its consumer's new allocations on its root. With another consumer it transfers
// it.
func (p *placementWrite) rewriteClaim(old *Claim, consumer string, o claimOwner, allocations []Used) {
	n := *old
	if old.State == Pending {
		n = *old.awaiting(true)
		n.State, n.ExpiresAt, n.Verdict = Confirmed, time.Time{}, nil
	}
	if old.ConsumerUUID != consumer {
		n.ConsumerUUID, n.TransferredFrom = consumer, old.Instance()
		if n.TransferredFrom == consumer {
			n.TransferredFrom = ""
		}
	}
	n.Allocated, n.Adopted = true, false
	n.ProjectID, n.UserID, n.ConsumerType, n.ConsumerGeneration = cmp.Or(o.project, n.ProjectID), cmp.Or(o.user, n.UserID), cmp.Or(o.kind, n.ConsumerType), o.generation
	if !sameAllocations(old.Allocations, allocations) {
		n.Allocations = allocations
	}
	n.UpdatedAt = p.nextWriteTime(old)
	if old.State != Confirmed || !sameAllocations(old.Allocations, allocations) {
		p.moveUsage(old.HostUUID, old, &n)
	}
	p.putClaim(&n)
}

// newAllocation makes the claim of a consumer on a root where it has none.
func (p *placementWrite) newAllocation(h *Host, consumer string, o claimOwner, allocations []Used) *Claim {
	return &Claim{
		ClaimID: p.newClaimID("allocated-", h, consumer), ConsumerUUID: consumer, State: Confirmed, Allocated: true,
		HostUUID: h.UUID, ServiceHost: h.ServiceHost, Allocations: allocations,
		ProjectID: o.project, UserID: o.user, ConsumerType: o.kind, ConsumerGeneration: o.generation,
		CreatedAt: p.now, UpdatedAt: p.now,
	}
}

// raiseGenerations raises the generations of providers that the write allocated of, and of those that consumers left
// with nothing had.
func (p *placementWrite) raiseGenerations() {
	for _, id := range slices.Sorted(maps.Keys(p.view.Hosts)) {
		h := p.view.Hosts[id]
		if !h.PlacementTree || !slices.ContainsFunc(h.Providers, func(o Provider) bool { return p.raise[o.UUID] > 0 }) {
			continue
		}
		next := *h
		next.Providers = slices.Clone(h.Providers)
		for i := range next.Providers {
			next.Providers[i].Generation += p.raise[next.Providers[i].UUID]
		}
		p.putHostRow(&next)
	}
}

// checkCapacity refuses allocations beyond a provider's capacity, by Placement's rule
// (placement/objects/allocation.py, _check_capacity_exceeded), even if the provider was over capacity before. With
// adopt only the inventory must exist.
func (p *placementWrite) checkCapacity(list []ConsumerWrite, adopt bool) *Outcome {
	for i := range list {
		for _, root := range list[i].Allocations {
			h, u := p.view.Hosts[root.HostUUID], p.view.Usages[root.HostUUID]
			for _, a := range root.Allocations {
				inv, ok := h.inventory(a.ProviderUUID, a.ResourceClass)
				reason := PlacementReason("")
				switch {
				case !ok:
					reason = InventoryMissing
				case adopt:
				case a.Amount < inv.MinUnit || a.Amount > inv.MaxUnit || a.Amount%inv.StepSize != 0:
					reason = InventoryRefused
				case inv.Free(u.Of(a.ProviderUUID, a.ResourceClass)) < 0:
					reason = CapacityExceeded
				}
				if reason != "" {
					return denied(PlacementRefusal{Reason: reason, Provider: a.ProviderUUID, Class: a.ResourceClass, Consumer: list[i].UUID})
				}
			}
		}
	}
	return nil
}
