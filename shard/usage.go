package shard

import (
	"cmp"
	"slices"
)

// moveUsage updates a host's usage when a claim's row changes from before to after; nil for none. Ended claims use
// nothing.
func (t *transaction) moveUsage(host string, before, after *Claim) {
	u := &Usage{HostUUID: host, Generation: t.nextGeneration(host)}
	if old := t.view.Usages[host]; old != nil {
		u.Used, u.Pending, u.Confirmed = slices.Clone(old.Used), old.Pending, old.Confirmed
	}
	u.count(before, -1)
	u.count(after, +1)
	t.view.Usages[host] = u
	t.touch(usageRow, host)
}

func (u *Usage) count(c *Claim, n int64) {
	if c == nil || !c.State.Live() {
		return
	}
	if c.State == Pending {
		u.Pending += int32(n)
	} else {
		u.Confirmed += int32(n)
	}
	for _, a := range c.Allocations {
		u.add(a, n)
	}
}

// add adds n times an allocation. It keeps the order, and no entry of 0.
func (u *Usage) add(a Used, n int64) {
	i, found := slices.BinarySearchFunc(u.Used, a, compareUsed)
	if !found {
		a.Amount *= n
		u.Used = slices.Insert(u.Used, i, a)
		return
	}
	u.Used[i].Amount += a.Amount * n
	if u.Used[i].Amount == 0 {
		u.Used = slices.Delete(u.Used, i, i+1)
	}
}

func compareUsed(a, b Used) int {
	if c := cmp.Compare(a.ProviderUUID, b.ProviderUUID); c != 0 {
		return c
	}
	return cmp.Compare(a.ResourceClass, b.ResourceClass)
}

// Of gives the amount of a provider's resource class that is in use.
func (u *Usage) Of(provider, class string) int64 {
	if u == nil {
		return 0
	}
	i, ok := slices.BinarySearchFunc(u.Used, Used{ProviderUUID: provider, ResourceClass: class}, compareUsed)
	if !ok {
		return 0
	}
	return u.Used[i].Amount
}

// inventory gives a provider's inventory of a class.
func (h *Host) inventory(provider, class string) (Inventory, bool) {
	for i := range h.Providers {
		if h.Providers[i].UUID != provider {
			continue
		}
		for _, inv := range h.Providers[i].Inventories {
			if inv.ResourceClass == class {
				return inv, true
			}
		}
	}
	return Inventory{}, false
}

// misfit gives the first allocation that does not fit beside the usage, and why, by Placement's rule
// (placement/objects/allocation.py, _check_capacity_exceeded): min_unit, max_unit, step_size and capacity.
func misfit(h *Host, u *Usage, allocations []Used) (Used, string) {
	for _, a := range allocations {
		inv, ok := h.inventory(a.ProviderUUID, a.ResourceClass)
		if !ok {
			return a, "the host has no such inventory"
		}
		switch used := u.Of(a.ProviderUUID, a.ResourceClass); {
		case a.Amount < inv.MinUnit:
			return a, "less than min_unit"
		case a.Amount > inv.MaxUnit:
			return a, "more than max_unit"
		case inv.StepSize > 1 && a.Amount%inv.StepSize != 0:
			return a, "not a multiple of step_size"
		case a.Amount > inv.Free(used):
			return a, "more than what is free"
		}
	}
	return Used{}, ""
}

// overcommitted counts the (provider, class) pairs that are used beyond the host's capacity.
func overcommitted(h *Host, u *Usage) int {
	if u == nil {
		return 0
	}
	n := 0
	for _, used := range u.Used {
		inv, ok := h.inventory(used.ProviderUUID, used.ResourceClass)
		if !ok || inv.Free(used.Amount) < 0 {
			n++
		}
	}
	return n
}
