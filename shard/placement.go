package shard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"cellgate/internal/fault"
)

// WritePlacement is a write of the Placement API (docs/adr/0029): of providers, of consumers' allocations, or of
// both. It is done whole or not at all, and judged by the state that it leaves: inventories and their allocations can
// move together.
//
// A refusal has a PlacementRefusal, unless the operation itself is invalid.
type WritePlacement struct {
	Providers []ProviderWrite
	Consumers []ConsumerWrite
	// Adopt writes allocations copied from another Placement: amounts are not checked, and allocations do not raise
	// providers' generations.
	Adopt bool
}

// ProviderWrite creates, changes or deletes a provider of a tree that the Placement API reports (Host.PlacementTree).
// The tree of an agent is refused (AGENT_TREE). The tree of an import is not found, but its root can be created, and
// keeps its inventories until they are written. A deleted root leaves a row without inventories.
type ProviderWrite struct {
	UUID string
	// HostUUID is the root of the provider's tree, before the write; for Create, of the parent's.
	HostUUID       string
	Create, Delete bool
	Name           *string
	// Parent, unless nil, is the new parent, in the tree of ParentHost; "" makes the provider a root. A provider
	// moves to another tree only if nothing is allocated of it and of those below it.
	Parent     *string
	ParentHost string
	// Generation, unless nil, must be the provider's. Raise is added to it.
	Generation *int64
	Raise      int64
	// Inventories, Traits and Aggregates, unless nil, replace the provider's.
	Inventories        *[]Inventory
	Traits, Aggregates *[]string
}

// ConsumerWrite replaces a consumer's allocations in this shard, by one CONFIRMED claim for each root. Without
// Allocations the consumer holds nothing afterwards. A claim on a root of the new allocations stays, with the
// hardware assigned to it. If one consumer gives up exactly what another consumer of the same write gets on that
// root, the claim is transferred. One that was transferred from that other consumer before takes the place of the claim
// that would stay: Nova reverts a resize within the host.
//
// The write raises the consumer's generation by one, and that of each provider allocated to it. A consumer left with
// nothing also raises the generations of the providers that it had, unless MustExist.
type ConsumerWrite struct {
	UUID string
	// AnyGeneration skips the check. Else the consumer's generation must be Generation; nil: the consumer must hold
	// nothing.
	AnyGeneration bool
	Generation    *int64
	// Raise is added to the consumer's generation, beside the one of every write.
	Raise int64
	// ProjectID, UserID and Type keep their values when empty.
	ProjectID, UserID, Type string
	Allocations             []RootAllocations
	// MustExist refuses (CONSUMER_NOT_FOUND) when the consumer holds nothing.
	MustExist bool
}

// RootAllocations are allocations of the providers of one tree.
type RootAllocations struct {
	HostUUID    string
	Allocations []Used
}

// PlacementReason is why the current state does not allow a WritePlacement, PutName or DeleteName.
type PlacementReason string

// The reasons.
const (
	ProviderNotFound       PlacementReason = "PROVIDER_NOT_FOUND"
	ParentNotFound         PlacementReason = "PARENT_NOT_FOUND"
	DuplicateProvider      PlacementReason = "DUPLICATE_PROVIDER"
	ProviderGeneration     PlacementReason = "PROVIDER_GENERATION"
	ProviderHasAllocations PlacementReason = "PROVIDER_HAS_ALLOCATIONS"
	ProviderHasChildren    PlacementReason = "PROVIDER_HAS_CHILDREN"
	ReparentRefused        PlacementReason = "REPARENT_REFUSED"
	InventoryInUse         PlacementReason = "INVENTORY_IN_USE"
	InventoryMissing       PlacementReason = "INVENTORY_MISSING"
	InventoryRefused       PlacementReason = "INVENTORY_REFUSED"
	CapacityExceeded       PlacementReason = "CAPACITY_EXCEEDED"
	ConsumerGeneration     PlacementReason = "CONSUMER_GENERATION"
	ConsumerNotFound       PlacementReason = "CONSUMER_NOT_FOUND"
	ClassNotFound          PlacementReason = "CLASS_NOT_FOUND"
	TraitNotFound          PlacementReason = "TRAIT_NOT_FOUND"
	ClassInUse             PlacementReason = "CLASS_IN_USE"
	TraitInUse             PlacementReason = "TRAIT_IN_USE"
	AgentTree              PlacementReason = "AGENT_TREE"
)

// PlacementRefusal says why the current state does not allow a write, and which object is the reason, if it is one.
type PlacementRefusal struct {
	Reason                          PlacementReason
	Provider, Class, Consumer, Name string
	Detail                          string
}

func (r *PlacementRefusal) String() string {
	s := string(r.Reason)
	for _, part := range [...]struct{ what, is string }{{"provider", r.Provider}, {"class", r.Class}, {"consumer", r.Consumer}, {"name", r.Name}} {
		if part.is != "" {
			s += " " + part.what + " " + part.is
		}
	}
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// PlacementPart is the refusal for the Placement API; nil for no refusal.
func (r *Refusal) PlacementPart() *PlacementRefusal {
	if r == nil {
		return nil
	}
	return r.Placement
}

// TreeSource is the source of a host's providers.
type TreeSource string

// The sources.
const (
	TreeOfAgent     TreeSource = "AGENT"
	TreeOfImporter  TreeSource = "IMPORTER"
	TreeOfPlacement TreeSource = "PLACEMENT"
)

// TreeSource is the source of the host's providers.
func (h *Host) TreeSource() TreeSource {
	switch {
	case h.PlacementTree:
		return TreeOfPlacement
	case h.Imported:
		return TreeOfImporter
	}
	return TreeOfAgent
}

// keepPlacementTree gives an imported host the providers that the Placement API reported. Inventory.Filled stays the
// import's.
func (h *Host) keepPlacementTree(old *Host) {
	imported := h.Providers[0].Inventories
	h.Providers, h.PlacementTree = slices.Clone(old.Providers), true
	root := &h.Providers[0]
	root.Inventories = keepFilled(slices.Clone(root.Inventories), imported)
}

func denied(r PlacementRefusal) *Outcome {
	kind := fault.FailedPrecondition
	switch r.Reason {
	case ProviderNotFound, ConsumerNotFound, ClassNotFound, TraitNotFound:
		kind = fault.NotFound
	case ProviderGeneration, ConsumerGeneration:
		kind = fault.StaleGeneration
	}
	return &Outcome{Refusal: &Refusal{Kind: kind, Message: r.String(), Placement: &r}}
}

// writePlacement does a write whole, or leaves everything as it was.
func (t *transaction) writePlacement(w *WritePlacement) Outcome {
	undo := t.checkpoint()
	p := &placementWrite{transaction: t, raise: map[string]int64{}}
	if o := p.run(w); o != nil {
		undo()
		return *o
	}
	return Outcome{}
}

// checkpoint gives a function that resets the transaction to this moment. Rows are replaced and never changed, so
// copies of the maps suffice.
func (t *transaction) checkpoint() (undo func()) {
	before, n := *t.view, len(t.touched)
	v := t.view
	v.Hosts, v.Usages, v.Claims = maps.Clone(v.Hosts), maps.Clone(v.Usages), maps.Clone(v.Claims)
	v.LiveByConsumer, v.LiveByHost = maps.Clone(v.LiveByConsumer), maps.Clone(v.LiveByHost)
	v.LiveByGroup, v.TransferredFrom = maps.Clone(v.LiveByGroup), maps.Clone(v.TransferredFrom)
	return func() {
		*v = before
		for _, k := range t.touched[n:] {
			delete(t.seen, k)
		}
		t.touched = t.touched[:n]
	}
}

// placementWrite is a WritePlacement under way.
type placementWrite struct {
	*transaction
	// raise is what is added to the generations of providers, by uuid.
	raise map[string]int64
}

func (p *placementWrite) run(w *WritePlacement) *Outcome {
	for i := range w.Consumers {
		if o := p.checkConsumer(&w.Consumers[i]); o != nil {
			return o
		}
	}
	for i := range w.Providers {
		if o := p.writeProvider(&w.Providers[i]); o != nil {
			return o
		}
	}
	if o := p.writeConsumers(w.Consumers, w.Adopt); o != nil {
		return o
	}
	for i := range w.Providers {
		if o := p.checkInventories(&w.Providers[i]); o != nil {
			return o
		}
	}
	return nil
}

// checkInventories refuses a write that removes a class that consumers hold from a provider.
func (p *placementWrite) checkInventories(w *ProviderWrite) *Outcome {
	if w.Inventories == nil {
		return nil
	}
	for _, id := range []string{w.HostUUID, w.ParentHost, w.UUID} {
		h, u := p.view.Hosts[id], p.view.Usages[id]
		if h == nil || u == nil || h.provider(w.UUID) == nil {
			continue
		}
		for _, used := range u.Used {
			if _, ok := h.inventory(used.ProviderUUID, used.ResourceClass); !ok && used.ProviderUUID == w.UUID {
				return denied(PlacementRefusal{Reason: InventoryInUse, Provider: w.UUID, Class: used.ResourceClass})
			}
		}
	}
	return nil
}

// provider finds a provider of a host; nil for none.
func (h *Host) provider(uuid string) *Provider {
	for i := range h.Providers {
		if h.Providers[i].UUID == uuid {
			return &h.Providers[i]
		}
	}
	return nil
}

// putHostRow writes a host's row, with its next generation.
func (t *transaction) putHostRow(h *Host) {
	h.Generation = t.nextGeneration(h.UUID)
	t.view.Hosts[h.UUID] = h
	t.touch(hostRow, h.UUID)
}

func (w *WritePlacement) problem() string {
	for i := range w.Providers {
		if r := w.Providers[i].problem(); r != "" {
			return fmt.Sprintf("providers[%d].%s", i, r)
		}
	}
	seen := map[string]bool{}
	for i := range w.Consumers {
		c := &w.Consumers[i]
		r := c.problem()
		if r == "" && seen[c.UUID] {
			r = "uuid: stands twice"
		}
		if seen[c.UUID] = true; r != "" {
			return fmt.Sprintf("consumers[%d].%s", i, r)
		}
	}
	return ""
}

func (w *ProviderWrite) problem() string {
	if r := idsProblem("uuid", w.UUID, "host_uuid", w.HostUUID); r != "" {
		return r
	}
	switch {
	case w.Parent != nil && *w.Parent != "" && !isID(w.ParentHost):
		return "parent_host: " + idRule
	case w.Create && w.Delete:
		return "delete: must not be set with create"
	case w.Create && w.HostUUID != w.UUID && (w.Parent == nil || *w.Parent == ""):
		return "host_uuid: must be the uuid of a provider without a parent"
	case w.Create && w.Parent != nil && *w.Parent != "" && w.ParentHost != w.HostUUID:
		return "parent_host: must be host_uuid of a provider that is created"
	case w.Raise < 0:
		return "raise: must not be negative"
	}
	p := Provider{UUID: w.UUID}
	if w.Name != nil {
		p.Name = *w.Name
	}
	if w.Traits != nil {
		p.Traits = *w.Traits
	}
	if w.Inventories != nil {
		p.Inventories = *w.Inventories
	}
	if w.Aggregates != nil {
		if r := textProblem("aggregates", *w.Aggregates...); r != "" {
			return r
		}
	}
	return p.problem(nil)
}

func (w *ConsumerWrite) problem() string {
	if w.Raise < 0 {
		return "raise: must not be negative"
	}
	if r := cmp.Or(idsProblem("uuid", w.UUID), textProblem("project_id, user_id or type", w.ProjectID, w.UserID, w.Type)); r != "" {
		return r
	}
	for i := range w.Allocations {
		root := &w.Allocations[i]
		at := fmt.Sprintf("allocations[%d]", i)
		switch {
		case !isID(root.HostUUID):
			return at + ".host_uuid: " + idRule
		case len(root.Allocations) == 0:
			return at + ".allocations: must not be empty"
		case slices.ContainsFunc(w.Allocations[:i], func(o RootAllocations) bool { return o.HostUUID == root.HostUUID }):
			return at + ".host_uuid: stands twice"
		}
		if r := allocationsProblem(at+".allocations", root.Allocations); r != "" {
			return r
		}
	}
	return ""
}
