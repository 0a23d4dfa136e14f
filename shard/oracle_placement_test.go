package shard

import (
	"maps"
	"reflect"
	"slices"

	"pgregory.net/rapid"

	"cellgate/internal/fault"
)

// genWrite makes writes of the Placement API: of one or two providers, of one or two consumers, or of both.
func genWrite(t *rapid.T, host, consumer *rapid.Generator[string]) *WritePlacement {
	w := &WritePlacement{Adopt: rapid.IntRange(0, 7).Draw(t, "adopt") == 0}
	what := rapid.SampledFrom([]string{"providers", "consumers", "consumers", "both"}).Draw(t, "writes")
	if what != "consumers" {
		w.Providers = rapid.SliceOfN(genProviderWrite(host), 1, 2).Draw(t, "providers")
	}
	if what == "providers" {
		return w
	}
	for _, id := range rapid.SliceOfNDistinct(consumer, 1, 2, rapid.ID).Draw(t, "consumers") {
		c := ConsumerWrite{UUID: id, AnyGeneration: rapid.Bool().Draw(t, "any"), MustExist: rapid.IntRange(0, 5).Draw(t, "must") == 0, Raise: rapid.Int64Range(0, 1).Draw(t, "raise")}
		if g := rapid.Int64Range(0, 4).Draw(t, "generation"); g > 0 {
			c.Generation = &g
		}
		for _, h := range rapid.SliceOfNDistinct(host, 0, 2, rapid.ID).Draw(t, "on") {
			c.Allocations = append(c.Allocations, RootAllocations{HostUUID: h, Allocations: genAllocations(h).Draw(t, "allocations")})
		}
		w.Consumers = append(w.Consumers, c)
	}
	return w
}

func genProviderWrite(host *rapid.Generator[string]) *rapid.Generator[ProviderWrite] {
	return rapid.Custom(func(t *rapid.T) ProviderWrite {
		h := host.Draw(t, "host")
		w := ProviderWrite{UUID: h, HostUUID: h, Raise: rapid.Int64Range(0, 1).Draw(t, "raise")}
		class := "VCPU"
		if rapid.IntRange(0, 3).Draw(t, "child") == 0 {
			w.UUID, class = "gpu-"+h, "VGPU"
		}
		switch rapid.SampledFrom([]string{"create", "create", "delete", "write", "write"}).Draw(t, "how") {
		case "create":
			w.Create = true
			if w.UUID != h {
				w.Parent, w.ParentHost = &h, h
			}
		case "delete":
			w.Delete = true
		}
		if rapid.IntRange(0, 2).Draw(t, "generation?") == 0 {
			w.Generation = new(rapid.Int64Range(0, 3).Draw(t, "generation"))
		}
		if !w.Delete {
			w.Inventories = &[]Inventory{}
			if rapid.IntRange(0, 2).Draw(t, "has") > 0 {
				*w.Inventories = append(*w.Inventories, Inventory{
					ResourceClass: class, Total: rapid.Int64Range(1, 12).Draw(t, "total"), MinUnit: 1, MaxUnit: rapid.SampledFrom([]int64{3, 9, 9}).Draw(t, "max"),
					StepSize: 1, AllocationRatio: rapid.SampledFrom([]float64{0.5, 1, 1.5}).Draw(t, "ratio"),
				})
			}
		}
		return w
	})
}

// createRoots makes roots of 12 VCPU through the Placement API.
func createRoots(uuids ...string) []Op {
	w := &WritePlacement{}
	for _, id := range uuids {
		w.Providers = append(w.Providers, ProviderWrite{UUID: id, HostUUID: id, Create: true, Inventories: &[]Inventory{
			{ResourceClass: "VCPU", Total: 12, MinUnit: 1, MaxUnit: 12, StepSize: 1, AllocationRatio: 1},
		}})
	}
	return []Op{{WritePlacement: w}}
}

func (o *oracle) onCompute(c *Claim) bool { return c.ServiceHost != "" }

// onComputes lists a consumer's live claims on roots that have a compute service.
func (o *oracle) onComputes(consumer string) []*Claim {
	return slices.DeleteFunc(o.live(consumer), func(c *Claim) bool { return !o.onCompute(c) })
}

func (o *oracle) generation(consumer string) (n int64) {
	for _, c := range o.live(consumer) {
		n = max(n, c.ConsumerGeneration)
	}
	return n
}

func reasonOf(r PlacementReason) answer {
	return answer{kind: denied(PlacementRefusal{Reason: r}).Refusal.Kind, reason: r}
}

// writePlacement tries a write on copies, and keeps them if the write is not refused.
func (o *oracle) writePlacement(w *WritePlacement) answer {
	hosts, claims := maps.Clone(o.hosts), o.claims
	before := make([]Claim, len(claims))
	for i, c := range claims {
		before[i] = *c
	}
	o.claims = slices.Clone(claims)
	for _, h := range o.hosts {
		h.Providers = slices.Clone(h.Providers)
		o.hosts[h.UUID] = h
	}
	a := o.place(w)
	if a.reason == "" && a.kind == "" {
		return a
	}
	o.hosts, o.claims = hosts, claims
	for i, c := range claims {
		*c = before[i]
	}
	return a
}

func (o *oracle) place(w *WritePlacement) answer {
	if w.problem() != "" {
		return answer{kind: fault.InvalidRequest}
	}
	for _, c := range w.Consumers {
		g := o.generation(c.UUID)
		switch {
		case c.MustExist && g == 0:
			return reasonOf(ConsumerNotFound)
		case c.AnyGeneration:
		case g == 0 && c.Generation != nil, g > 0 && (c.Generation == nil || *c.Generation != g):
			return reasonOf(ConsumerGeneration)
		}
	}
	for _, p := range w.Providers {
		if r := o.placeProvider(p); r != "" {
			return reasonOf(r)
		}
	}
	if r := o.placeConsumers(w.Consumers, w.Adopt); r != "" {
		return reasonOf(r)
	}
	for _, p := range w.Providers {
		if p.Inventories == nil {
			continue
		}
		for _, class := range []string{"VCPU", "VGPU"} {
			h := o.hosts[p.HostUUID]
			if _, has := h.inventory(p.UUID, class); !has && h.provider(p.UUID) != nil && o.inUse(h.UUID, p.UUID, class) > 0 {
				return reasonOf(InventoryInUse)
			}
		}
	}
	return answer{}
}

func (o *oracle) placeProvider(w ProviderWrite) PlacementReason {
	h, known := o.hosts[w.HostUUID]
	agents := known && !h.Imported
	if w.Create && w.UUID == w.HostUUID {
		if known && (agents || h.PlacementTree) {
			return DuplicateProvider
		}
		if !known {
			h = Host{UUID: w.UUID, Imported: true}
		}
		if !known || h.Gone() {
			h.Providers = []Provider{{UUID: w.UUID}}
		}
		h.PlacementTree, h.Providers[0].Generation, h.Providers[0].Name = true, 0, ""
	} else if w.Create {
		switch {
		case !known || h.Imported && !h.PlacementTree:
			return ParentNotFound
		case agents:
			return AgentTree
		case h.provider(w.UUID) != nil:
			return DuplicateProvider
		}
		h.Providers = append(h.Providers, Provider{UUID: w.UUID, ParentUUID: w.HostUUID})
	}
	switch {
	case !known && !w.Create, h.Imported && !h.PlacementTree, h.provider(w.UUID) == nil:
		return ProviderNotFound
	case agents:
		return AgentTree
	case w.Generation != nil && *w.Generation != h.provider(w.UUID).Generation:
		return ProviderGeneration
	case w.Delete && w.UUID == h.UUID && len(h.Providers) > 1:
		return ProviderHasChildren
	case w.Delete && o.inUse(h.UUID, w.UUID, "VCPU")+o.inUse(h.UUID, w.UUID, "VGPU") > 0:
		return ProviderHasAllocations
	case w.Delete && w.UUID == h.UUID:
		h.PlacementTree, h.Providers = false, []Provider{{UUID: h.UUID, Name: h.Providers[0].Name}}
		h.Disabled = h.Disabled || h.ServiceHost == ""
	case w.Delete:
		h.Providers = slices.DeleteFunc(h.Providers, func(p Provider) bool { return p.UUID == w.UUID })
	default:
		p := h.provider(w.UUID)
		p.Generation += w.Raise
		if w.Inventories != nil {
			p.Inventories = slices.Clone(*w.Inventories)
		}
	}
	o.hosts[h.UUID] = h
	return ""
}

func (o *oracle) placeConsumers(list []ConsumerWrite, adopt bool) PlacementReason {
	raised := map[string]bool{}
	next := map[string]int64{}
	held := map[*Claim]bool{}
	stays := map[*Claim]bool{}
	for _, w := range list {
		next[w.UUID] = o.generation(w.UUID) + 1 + w.Raise
		for _, c := range o.live(w.UUID) {
			held[c] = true
			for _, a := range c.Allocations {
				raised[a.ProviderUUID] = raised[a.ProviderUUID] || len(w.Allocations) == 0 && !w.MustExist
			}
		}
		for _, root := range w.Allocations {
			if c := o.stayer(w.UUID, root); c != nil {
				stays[c] = true
			}
		}
	}
	made := []*Claim{}
	for _, w := range list {
		for _, root := range w.Allocations {
			h := o.hosts[root.HostUUID]
			for _, a := range root.Allocations {
				if raised[a.ProviderUUID] = true; h.UUID == "" || h.Imported && !h.PlacementTree || h.provider(a.ProviderUUID) == nil {
					return ProviderNotFound
				}
			}
			var c *Claim
			for _, own := range o.live(w.UUID) {
				if stays[own] && own.HostUUID == root.HostUUID {
					c = own
				}
			}
			back := maps.Clone(held)
			maps.DeleteFunc(back, func(o *Claim, _ bool) bool { return c != nil && o.TransferredFrom != w.UUID })
			if b := given(back, stays, root); b != nil {
				delete(stays, c)
				c = b
			}
			if c == nil {
				c = &Claim{ClaimID: "allocated " + root.HostUUID + w.UUID, ConsumerUUID: w.UUID, HostUUID: root.HostUUID, ServiceHost: h.ServiceHost, State: Confirmed}
				made = append(made, c)
			}
			delete(held, c)
			if c.State == Pending {
				await(c, true)
				c.State, c.Verdict = Confirmed, nil
			}
			if first := instanceOf(c); c.ConsumerUUID != w.UUID {
				c.ConsumerUUID, c.TransferredFrom = w.UUID, first
				if first == w.UUID {
					c.TransferredFrom = ""
				}
			}
			c.Adopted, c.Allocated, c.ConsumerGeneration = false, true, next[w.UUID]
			if !sameAllocations(c.Allocations, root.Allocations) {
				c.Allocations = root.Allocations
			}
		}
	}
	for c := range held {
		c.State = Released
	}
	o.claims = append(o.claims, made...)
	for _, h := range o.hosts {
		for i := range h.Providers {
			if !adopt && h.PlacementTree && raised[h.Providers[i].UUID] {
				h.Providers[i].Generation++
			}
		}
	}
	for _, w := range list {
		for _, root := range w.Allocations {
			h := o.hosts[root.HostUUID]
			for _, a := range root.Allocations {
				i, has := h.inventory(a.ProviderUUID, a.ResourceClass)
				switch {
				case !has:
					return InventoryMissing
				case adopt:
				case a.Amount < i.MinUnit || a.Amount > i.MaxUnit || a.Amount%i.StepSize != 0:
					return InventoryRefused
				case float64(o.inUse(h.UUID, a.ProviderUUID, a.ResourceClass)) > float64(i.Total-i.Reserved)*i.AllocationRatio-float64(i.Unaccounted):
					return CapacityExceeded
				}
			}
		}
	}
	return ""
}

// stayer is the consumer's claim on a root that keeps its id; nil: there is none.
func (o *oracle) stayer(consumer string, root RootAllocations) *Claim {
	var best *Claim
	for _, c := range o.live(consumer) {
		if c.HostUUID != root.HostUUID {
			continue
		}
		better := func(is func(*Claim) bool) (decided, yes bool) { return is(c) != is(best), is(c) }
		if best == nil {
			best = c
			continue
		}
		if decided, yes := better(func(c *Claim) bool { return sameAllocations(c.Allocations, root.Allocations) }); decided {
			if yes {
				best = c
			}
		} else if decided, yes := better(func(c *Claim) bool { return c.Moves != "" }); decided {
			if yes {
				best = c
			}
		} else if c.ClaimID < best.ClaimID {
			best = c
		}
	}
	return best
}

// given is the claim on a root, with these allocations, that a consumer of the write gives up; nil:
// there is none.
func given(held, stays map[*Claim]bool, root RootAllocations) *Claim {
	var first *Claim
	for c := range held {
		if !stays[c] && c.HostUUID == root.HostUUID && sameAllocations(c.Allocations, root.Allocations) && (first == nil || c.ClaimID < first.ClaimID) {
			first = c
		}
	}
	return first
}

// checkTrees compares the providers of hosts with the naive rules.
func checkTrees(t rapid.TB, w *world, o *oracle) {
	for id, h := range o.hosts {
		row := w.hosts[id]
		if row == nil || row.PlacementTree != h.PlacementTree || row.Gone() != h.Gone() {
			t.Fatalf("host %s is %+v, by the naive rules %+v", id, row, h)
		}
		if !h.PlacementTree {
			continue
		}
		for i, p := range h.Providers {
			if q := row.Providers[i]; q.UUID != p.UUID || q.Generation != p.Generation || len(q.Inventories) != len(p.Inventories) ||
				len(p.Inventories) > 0 && !reflect.DeepEqual(q.Inventories, p.Inventories) {
				t.Fatalf("provider %s is %+v, by the naive rules %+v", p.UUID, q, p)
			}
		}
	}
}
