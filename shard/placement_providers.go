package shard

import "slices"

// writeProvider does one write of a provider. run checks the inventories in use after it wrote the consumers.
func (p *placementWrite) writeProvider(w *ProviderWrite) *Outcome {
	refuse := func(r PlacementReason) *Outcome { return denied(PlacementRefusal{Reason: r, Provider: w.UUID}) }
	if w.Create {
		if o := p.createProvider(w); o != nil {
			return o
		}
	}
	h := p.view.Hosts[w.HostUUID]
	switch {
	case h == nil || h.TreeSource() == TreeOfImporter || h.provider(w.UUID) == nil:
		return refuse(ProviderNotFound)
	case h.TreeSource() == TreeOfAgent:
		return refuse(AgentTree)
	case w.Generation != nil && *w.Generation != h.provider(w.UUID).Generation:
		return refuse(ProviderGeneration)
	case w.Delete:
		return p.deleteProvider(h, w)
	}
	h = h.withProvider(w.UUID, func(one *Provider) {
		one.Generation += w.Raise
		if w.Name != nil {
			one.Name = *w.Name
		}
		if w.Inventories != nil {
			one.Inventories = keepFilled(slices.Clone(*w.Inventories), one.Inventories)
		}
		if w.Traits != nil {
			one.Traits = slices.Clone(*w.Traits)
		}
		if w.Aggregates != nil {
			one.Aggregates = slices.Clone(*w.Aggregates)
		}
	})
	p.putHostRow(h)
	if w.Parent == nil || w.Create || *w.Parent == h.provider(w.UUID).ParentUUID {
		return nil
	}
	return p.moveProvider(h, w)
}

// keepFilled copies Inventory.Filled, which the API does not know, from the inventories of an import.
func keepFilled(reported, imported []Inventory) []Inventory {
	for i := range reported {
		at := slices.IndexFunc(imported, func(o Inventory) bool { return o.ResourceClass == reported[i].ResourceClass })
		if at >= 0 {
			reported[i].Filled = imported[at].Filled
		}
	}
	return reported
}

// withProvider gives a copy of the host in which one provider is changed.
func (h *Host) withProvider(uuid string, change func(*Provider)) *Host {
	next := *h
	next.Providers = slices.Clone(h.Providers)
	change(next.provider(uuid))
	return &next
}

func (p *placementWrite) createProvider(w *ProviderWrite) *Outcome {
	refuse := func(r PlacementReason) *Outcome { return denied(PlacementRefusal{Reason: r, Provider: w.UUID}) }
	h := p.view.Hosts[w.HostUUID]
	one := Provider{UUID: w.UUID}
	if w.Name != nil {
		one.Name = *w.Name
	}
	if w.HostUUID == w.UUID {
		switch {
		case h == nil:
			p.putHostRow(&Host{UUID: w.UUID, Imported: true, PlacementTree: true, Providers: []Provider{one}})
		case h.Gone(): // disabled until an import says otherwise
			next := *h
			next.PlacementTree, next.Providers = true, []Provider{one}
			p.putHostRow(&next)
		case h.TreeSource() == TreeOfImporter:
			next := h.withProvider(w.UUID, func(root *Provider) { root.Name, root.Generation = one.Name, 0 })
			next.PlacementTree = true
			p.putHostRow(next)
		default:
			return refuse(DuplicateProvider)
		}
		return nil
	}
	switch {
	case h == nil || h.TreeSource() == TreeOfImporter || h.provider(*w.Parent) == nil:
		return refuse(ParentNotFound)
	case h.TreeSource() == TreeOfAgent:
		return refuse(AgentTree)
	case h.provider(w.UUID) != nil:
		return refuse(DuplicateProvider)
	}
	one.ParentUUID = *w.Parent
	next := *h
	next.Providers = append(slices.Clone(h.Providers), one)
	p.putHostRow(&next)
	return nil
}

func (p *placementWrite) deleteProvider(h *Host, w *ProviderWrite) *Outcome {
	if slices.ContainsFunc(h.Providers, func(o Provider) bool { return o.ParentUUID == w.UUID }) {
		return denied(PlacementRefusal{Reason: ProviderHasChildren, Provider: w.UUID})
	}
	if p.isInUse(h, w.UUID) {
		return denied(PlacementRefusal{Reason: ProviderHasAllocations, Provider: w.UUID})
	}
	if w.UUID == h.UUID {
		p.putHostRow(h.withoutTree())
		return nil
	}
	next := *h
	next.Providers = slices.DeleteFunc(slices.Clone(h.Providers), func(o Provider) bool { return o.UUID == w.UUID })
	p.putHostRow(&next)
	return nil
}

// withoutTree gives a host whose root the API deleted. Without a compute service it is Gone; with one, the importer
// fills it again.
func (h *Host) withoutTree() *Host {
	next := *h
	next.PlacementTree, next.Providers = false, []Provider{{UUID: h.UUID, Name: h.Providers[0].Name}}
	next.Disabled = next.Disabled || next.ServiceHost == ""
	return &next
}

// isInUse reports whether consumers have allocations of a provider.
func (p *placementWrite) isInUse(h *Host, provider string) bool {
	u := p.view.Usages[h.UUID]
	return u != nil && slices.ContainsFunc(u.Used, func(used Used) bool { return used.ProviderUUID == provider })
}

// moveProvider puts a provider, and all below it, under another parent.
func (p *placementWrite) moveProvider(from *Host, w *ProviderWrite) *Outcome {
	below := map[string]bool{w.UUID: true}
	var moved []Provider
	for _, one := range from.Providers {
		if below[one.UUID] || below[one.ParentUUID] {
			below[one.UUID] = true
			moved = append(moved, one)
		}
	}
	refuse := func(detail string) *Outcome {
		return denied(PlacementRefusal{Reason: ReparentRefused, Provider: w.UUID, Detail: detail})
	}
	if below[*w.Parent] {
		return refuse("a loop")
	}
	moved[0].ParentUUID = *w.Parent
	rest := slices.DeleteFunc(slices.Clone(from.Providers), func(o Provider) bool { return below[o.UUID] })
	if *w.Parent != "" && w.ParentHost == from.UUID {
		if from.provider(*w.Parent) == nil {
			return denied(PlacementRefusal{Reason: ParentNotFound, Provider: *w.Parent})
		}
		next := *from
		next.Providers = append(rest, moved...)
		p.putHostRow(&next)
		return nil
	}
	for id := range below {
		if p.isInUse(from, id) {
			return refuse("consumers hold something of provider " + id)
		}
	}
	if *w.Parent == "" {
		p.putHostRow(&Host{UUID: w.UUID, Imported: true, PlacementTree: true, Providers: moved})
	} else {
		to := p.view.Hosts[w.ParentHost]
		switch {
		case to == nil || to.TreeSource() == TreeOfImporter || to.provider(*w.Parent) == nil:
			return denied(PlacementRefusal{Reason: ParentNotFound, Provider: *w.Parent})
		case to.TreeSource() == TreeOfAgent:
			return denied(PlacementRefusal{Reason: AgentTree, Provider: *w.Parent})
		case w.UUID == from.UUID && from.ServiceHost != "":
			return refuse("it is the root of compute " + from.ServiceHost)
		}
		next := *to
		next.Providers = append(slices.Clone(to.Providers), moved...)
		p.putHostRow(&next)
	}
	if len(rest) == 0 {
		p.putHostRow(from.withoutTree())
		return nil
	}
	next := *from
	next.Providers = rest
	p.putHostRow(&next)
	return nil
}
