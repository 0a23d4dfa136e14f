package shard

import (
	"slices"
	"strings"

	"cellgate/internal/fault"
)

func (o *oracle) find(id string) *Claim {
	for _, c := range o.claims {
		if c.ClaimID == id {
			return c
		}
	}
	return nil
}

// live lists a consumer's live claims by id, but a claim that another one moves comes last.
func (o *oracle) live(consumer string) []*Claim {
	var cs []*Claim
	for _, c := range o.claims {
		if c.ConsumerUUID == consumer && c.State.Live() {
			cs = append(cs, c)
		}
	}
	slices.SortFunc(cs, func(a, b *Claim) int { return strings.Compare(a.ClaimID, b.ClaimID) })
	moves := func(c *Claim) bool {
		return slices.ContainsFunc(cs, func(o *Claim) bool { return o.ClaimID == c.Moves })
	}
	var last []*Claim
	var first []*Claim
	for _, c := range cs {
		if moves(c) {
			last = append(last, c)
		} else {
			first = append(first, c)
		}
	}
	return append(first, last...)
}

// forInstance lists the live claims that hold the resources of an instance.
func (o *oracle) forInstance(instance string) []*Claim {
	var cs []*Claim
	for _, c := range o.claims {
		if c.State.Live() && instanceOf(c) == instance {
			cs = append(cs, c)
		}
	}
	return cs
}

// byNova reports whether a write of the Placement API gave a live claim of the instance to another consumer.
func (o *oracle) byNova(instance string) bool {
	return slices.ContainsFunc(o.claims, func(c *Claim) bool { return c.State.Live() && c.Allocated && c.TransferredFrom == instance })
}

func instanceOf(c *Claim) string {
	if c.TransferredFrom == "" {
		return c.ConsumerUUID
	}
	return c.TransferredFrom
}

// unlike gives the first claim whose id is not id.
func unlike(cs []*Claim, id string) *Claim {
	for _, c := range cs {
		if c.ClaimID != id {
			return c
		}
	}
	return nil
}

func has(cs []*Claim, id string) bool {
	return slices.ContainsFunc(cs, func(c *Claim) bool { return c.ClaimID == id })
}

// beside gives the claim that forbids the consumer a new claim which moves the claim moves.
func (o *oracle) beside(consumer, moves string) *Claim {
	cs := o.onComputes(consumer)
	if has(cs, moves) {
		return unlike(cs, moves)
	}
	return unlike(cs, "")
}

// confirm makes a claim CONFIRMED and releases the claim that it moves. A repeated confirm does
// nothing.
func (o *oracle) confirm(c *Claim) {
	if c.State == Confirmed {
		return
	}
	next := max(c.ConsumerGeneration, o.generation(c.ConsumerUUID))
	c.State = Confirmed
	if m := o.find(c.Moves); m != nil && m.State.Live() && m.ConsumerUUID == c.ConsumerUUID && c.TransferredFrom == "" {
		c.ConsumerGeneration = next
		m.State = Released
	}
}

func (o *oracle) inUse(host, provider, class string) int64 {
	var n int64
	for _, c := range o.claims {
		for _, a := range c.Allocations {
			if c.State.Live() && c.HostUUID == host && a.ProviderUUID == provider && a.ResourceClass == class {
				n += a.Amount
			}
		}
	}
	return n
}

// refuses says why a host refuses a claim. If the host accepts the claim, refuses assigns its
// devices and returns nil.
func (o *oracle) refuses(c *Claim) *answer {
	h := o.hosts[c.HostUUID]
	for _, a := range c.Allocations {
		fits := false
		for _, p := range h.Providers {
			for _, i := range p.Inventories {
				fits = fits || p.UUID == a.ProviderUUID && i.ResourceClass == a.ResourceClass &&
					a.Amount >= i.MinUnit && a.Amount <= i.MaxUnit && a.Amount%i.StepSize == 0 &&
					float64(o.inUse(h.UUID, p.UUID, i.ResourceClass)+a.Amount) <= float64(i.Total-i.Reserved)*i.AllocationRatio-float64(i.Unaccounted)
			}
		}
		if !fits {
			return &answer{kind: fault.NoValidHost, filter: "ResourceFilter", detail: a.ResourceClass}
		}
	}
	if c.Group == nil {
		return o.hardware(c)
	}
	here := map[string]bool{}
	for _, m := range o.claims {
		if !m.State.Live() || instanceOf(m) == instanceOf(c) || !o.onCompute(m) {
			continue
		}
		if (m.Group == nil || m.Group.UUID != c.Group.UUID) && !slices.Contains(c.Group.Members, instanceOf(m)) {
			continue
		}
		if c.Group.Policy == "affinity" && o.hosts[m.HostUUID].ServiceHost != h.ServiceHost {
			return &answer{kind: fault.NoValidHost, filter: "ServerGroupAffinityFilter"}
		}
		if m.HostUUID == c.HostUUID {
			here[instanceOf(m)] = true
		}
	}
	for _, own := range o.forInstance(instanceOf(c)) {
		if c.Group.Policy == "anti-affinity" && own.HostUUID == c.HostUUID {
			return o.hardware(c)
		}
	}
	if c.Group.Policy == "anti-affinity" && len(here) >= max(1, int(c.Group.MaxPerHost)) {
		return &answer{kind: fault.NoValidHost, filter: "ServerGroupAntiAffinityFilter"}
	}
	return o.hardware(c)
}
