package shard

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"cellgate/internal/fault"
)

// NovaHost is what Nova's tables say of a host that an agent registered: its aggregates, and
// the allocation ratios of its root provider by resource class. They count in place of what
// the agent reported (Host.Aggregates, Inventory.AllocationRatio), which is kept beside them:
// docs/adr/0002.
type NovaHost struct {
	Aggregates []Aggregate
	Ratios     map[string]float64
	// ReportedAggregates and ReportedRatios are the agent's: all aggregates, and the ratios of
	// those classes where Nova's differs.
	ReportedAggregates []Aggregate
	ReportedRatios     map[string]float64
	// Left are the uuids of aggregates that the agent reports, and that Nova took the host out
	// of: they do not count.
	Left []string
}

// SetNovaHost replaces what Nova's tables say of an agent's host. The host must be there:
// NOT_FOUND. An imported host is Nova's own row, and does not change. What the row says
// already is not written. Without aggregates and ratios Nova has no such host: what the
// agent reported counts alone.
type SetNovaHost struct {
	HostUUID   string
	Aggregates []Aggregate
	Ratios     map[string]float64
}

// NovaHostOf is what an imported state says of a host: the ratios of classes that it has any of.
func NovaHostOf(imported *Host) *SetNovaHost {
	p := &SetNovaHost{HostUUID: imported.UUID, Aggregates: imported.Aggregates}
	for _, i := range imported.Providers[0].Inventories {
		if i.Total > 0 {
			if p.Ratios == nil {
				p.Ratios = map[string]float64{}
			}
			p.Ratios[i.ResourceClass] = i.AllocationRatio
		}
	}
	return p
}

// Changes reports whether a host's row does not say so already.
func (p *SetNovaHost) Changes(h *Host) bool {
	switch {
	case h == nil || h.Imported:
		return false
	case h.Nova == nil:
		return len(p.Aggregates) > 0 || len(p.Ratios) > 0
	}
	return !maps.Equal(p.Ratios, h.Nova.Ratios) || !SameAggregates(p.Aggregates, h.Nova.Aggregates)
}

// SameAggregates reports whether two lists say the same, in one order.
func SameAggregates(a, b []Aggregate) bool {
	return slices.EqualFunc(a, b, func(x, y Aggregate) bool {
		return x.UUID == y.UUID && x.Name == y.Name && maps.Equal(x.Metadata, y.Metadata)
	})
}

func (t *transaction) setNovaHost(p *SetNovaHost) Outcome {
	if problem := p.problem(); problem != "" {
		return refused(fault.InvalidRequest, "%s", problem)
	}
	old := t.view.Hosts[p.HostUUID]
	if old == nil {
		return refused(fault.NotFound, "host %s is not in this cell", p.HostUUID)
	}
	if !p.Changes(old) {
		return Outcome{}
	}
	said := &NovaHost{Aggregates: p.Aggregates, Ratios: p.Ratios}
	if n := old.Nova; n != nil {
		said.Left = slices.Clone(n.Left)
		for _, a := range n.Aggregates {
			said.Left = append(said.Left, a.UUID)
		}
	}
	h := old.reported()
	h.follow(said)
	h.Generation = t.nextGeneration(h.UUID)
	t.view.Hosts[h.UUID] = h
	t.touch(hostRow, h.UUID)
	t.reassign(h)
	return Outcome{Overcommitted: overcommitted(h, t.view.Usages[h.UUID])}
}

// follow merges what Nova says into what an agent reported. Aggregates are joined by uuid,
// of one that both have Nova's counts.
func (h *Host) follow(said *NovaHost) {
	if said == nil || len(said.Aggregates) == 0 && len(said.Ratios) == 0 {
		h.Nova = nil
		return
	}
	n := &NovaHost{Aggregates: said.Aggregates, Ratios: said.Ratios, ReportedAggregates: h.Aggregates, ReportedRatios: h.setRatios(said.Ratios)}
	h.Nova, h.Aggregates = n, slices.Clone(n.Aggregates)
	for _, a := range n.ReportedAggregates {
		switch {
		case slices.ContainsFunc(n.Aggregates, func(o Aggregate) bool { return o.UUID == a.UUID }):
		case slices.Contains(said.Left, a.UUID):
			n.Left = append(n.Left, a.UUID)
		default:
			h.Aggregates = append(h.Aggregates, a)
		}
	}
}

// reported gives a copy of a host as its agent reported it.
func (h *Host) reported() *Host {
	r := *h
	if r.Nova != nil {
		r.Nova, r.Aggregates = nil, h.Nova.ReportedAggregates
		r.setRatios(h.Nova.ReportedRatios)
	}
	return &r
}

// setRatios sets ratios of the root provider, but those that make an inventory invalid, and
// gives those that it replaced; nil for none. The row that h was copied from does not change.
func (h *Host) setRatios(of map[string]float64) (replaced map[string]float64) {
	h.Providers = slices.Clone(h.Providers)
	root := &h.Providers[0]
	root.Inventories = slices.Clone(root.Inventories)
	for i := range root.Inventories {
		inv := &root.Inventories[i]
		ratio, is := of[inv.ResourceClass]
		if !is || ratio == inv.AllocationRatio || float64(inv.Total-inv.Reserved)*ratio > math.MaxInt32 {
			continue
		}
		if replaced == nil {
			replaced = map[string]float64{}
		}
		replaced[inv.ResourceClass], inv.AllocationRatio = inv.AllocationRatio, ratio
	}
	return replaced
}

// problem says what is wrong with the operation; "" for nothing.
func (p *SetNovaHost) problem() string {
	if !isID(p.HostUUID) {
		return "host_uuid: " + idRule
	}
	for i := range p.Aggregates {
		if r := p.Aggregates[i].problem(); r != "" {
			return fmt.Sprintf("aggregates[%d].%s", i, r)
		}
	}
	for class, ratio := range p.Ratios {
		if r := textProblem("ratios", class); r != "" {
			return r
		}
		if !(ratio > 0) || math.IsInf(ratio, 0) {
			return fmt.Sprintf("ratios: that of %s is %v, must be above 0", class, ratio)
		}
	}
	return ""
}
