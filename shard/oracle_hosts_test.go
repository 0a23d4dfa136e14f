package shard

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"cellgate/internal/fault"
)

// counted runs say, a write of a host's admin state. It counts the write if it changed something;
// with always, if it succeeded.
func (o *oracle) counted(host string, always bool, say func() answer) answer {
	all := func() []any {
		return []any{o.admin[host], o.ends[host], o.nova[host], o.novaAt[host], o.silent[host], o.because[host]}
	}
	before := all()
	a := say()
	if a.kind == "" && (always || !reflect.DeepEqual(all(), before)) {
		o.writes[host]++
	}
	return a
}

// operate sets an operator's state; an end that has passed is refused. With over, the write names a
// generation, and is refused as stale if the state was written since.
func (o *oracle) operate(now time.Time, host string, state ConditionState, until time.Time, ends, over bool) answer {
	if !until.IsZero() && !until.After(now) {
		return answer{kind: fault.InvalidRequest}
	}
	if _, there := o.hosts[host]; !there {
		return answer{kind: fault.NotFound}
	}
	if over && o.writes[host] > o.asOf[host] {
		return answer{kind: fault.StaleGeneration}
	}
	// ends also drops the imported ratios of an agent's host. A host without these is not written
	// again.
	if _, follows := o.ratios[host]; ends && follows && !o.hosts[host].Imported {
		delete(o.ratios, host)
		delete(o.pools, host)
		delete(o.versions, host)
		o.putRow(o.reported[host])
		o.reassign(host)
	}
	if state == ConditionEnabled && o.admin[host] == "" && !over {
		return answer{}
	}
	o.admin[host], o.ends[host], o.because[host] = state, until, true
	if ends {
		o.nova[host], o.novaAt[host] = "", time.Time{}
	}
	return o.adminStateOf(host)
}

// serve sets the state of a host's service in Nova, unless a later reading is known.
func (o *oracle) serve(now time.Time, p *SetNovaState) answer {
	host, state, at := p.HostUUID, p.State, p.At
	if _, there := o.hosts[host]; !there {
		return answer{kind: fault.NotFound}
	}
	if state == "" && o.admin[host] == "" {
		return answer{}
	}
	known := o.novaAt[host]
	older := !at.IsZero() && at.Before(known) && known.Sub(now) <= time.Minute
	if o.nova[host] == state || older {
		return o.adminStateOf(host)
	}
	o.nova[host], o.novaAt[host] = state, at
	if o.admin[host] == "" {
		o.admin[host] = ConditionEnabled
	}
	return o.adminStateOf(host)
}

// hush sets whether a host's agent is silent.
func (o *oracle) hush(host string, silent bool) answer {
	h, there := o.hosts[host]
	switch {
	case !there:
		return answer{kind: fault.NotFound}
	case silent && !h.Imported:
		o.silent[host] = true
	case !silent:
		delete(o.silent, host)
	}
	if o.silent[host] && o.admin[host] == "" {
		o.admin[host] = ConditionEnabled
	}
	return o.adminStateOf(host)
}

// adminStateOf is the answer with a host's admin state.
func (o *oracle) adminStateOf(host string) answer {
	return answer{admin: o.admin[host], until: o.ends[host], nova: o.nova[host], silent: o.silent[host]}
}

// keepsAway is the refusal of new claims by an operator's or Nova's state of the host; nil: neither
// refuses.
func (o *oracle) keepsAway(now time.Time, host string) *answer {
	how := map[ConditionState]string{
		ConditionDisabled: "disabled by operator: why", ConditionMaintenance: "in maintenance: why", ConditionForcedDown: "forced down by operator: why",
	}[o.admin[host]]
	byNova := map[ConditionState]string{ConditionDisabled: "disabled in Nova: why", ConditionForcedDown: "forced down in Nova: why", ConditionSilent: "its nova-compute is down"}[o.nova[host]]
	end := o.ends[host]
	over := how == "" || !end.IsZero() && !now.Before(end)
	switch {
	case byNova == "" && over:
		return nil
	case byNova != "" && how != "":
		how += "; " + byNova
	case byNova != "":
		how = byNova
	}
	return &answer{kind: fault.NoValidHost, filter: "ComputeFilter", detail: how}
}

func (o *oracle) putHost(p *PutHost) answer {
	var a answer
	old, known := o.hosts[p.Host.UUID]
	next := p.Host
	if next.Imported && old.PlacementTree {
		next.Providers, next.PlacementTree = old.Providers, true
	}
	closed := o.revision > 0 && o.gate != GateNative
	ratios, pools := ratiosOf(next), poolsText(next, old)
	sameIncarnation := known && old.Imported == next.Imported && old.BootID == next.BootID
	content := func(h Host) Host {
		h.BootID, h.StateVersion = "", 0
		return h
	}
	switch {
	case !next.Imported && closed:
		return answer{held: true}
	case known && next.Imported && !old.Imported && !closed && next.StateVersion < o.versions[p.Host.UUID]:
		a.left, a.same, a.outdated = true, true, true
	case known && next.Imported && !old.Imported && !closed:
		a.left, a.taken = true, old.InstancesUnknown
		a.followed = !reflect.DeepEqual(ratios, o.ratios[p.Host.UUID])
		changes := a.followed || pools != o.pools[p.Host.UUID]
		if changes {
			o.ratios[p.Host.UUID], o.pools[p.Host.UUID], o.versions[p.Host.UUID] = ratios, pools, next.StateVersion
			o.putRow(o.reported[p.Host.UUID])
		}
		if a.taken {
			o.instances(p, &a)
		}
		if changes || a.taken {
			o.reassign(p.Host.UUID)
		}
	case known && !next.Imported && !old.Imported && !sameIncarnation && p.ExpectedBootID != nil && *p.ExpectedBootID != old.BootID:
		a.otherIncarnation = old.BootID
	case sameIncarnation && next.Imported && next.StateVersion < old.StateVersion:
		a.same, a.outdated = true, true
	case sameIncarnation && !next.Imported && next.StateVersion <= old.StateVersion:
	case known && next.Imported && reflect.DeepEqual(content(next), content(old)):
		a.same = true
		o.instances(p, &a)
		o.nameCompute(next)
		o.reassign(p.Host.UUID)
	default:
		if next.Imported {
			o.ratios[p.Host.UUID] = ratios
		} else if old.Imported {
			o.ratios[p.Host.UUID], o.pools[p.Host.UUID], o.versions[p.Host.UUID] = ratiosOf(old), poolsText(old, next), old.StateVersion
			if len(ratiosOf(old)) == 0 { // the row had been removed
				delete(o.versions, p.Host.UUID)
			}
		} else if !next.InstancesUnknown {
			delete(o.pools, p.Host.UUID)
		}
		o.putRow(next)
		if !next.InstancesUnknown {
			o.instances(p, &a)
		}
		o.nameCompute(next)
		o.reassign(p.Host.UUID)
	}
	a.over = len(o.over(p.Host.UUID))
	return a
}

// nameCompute sets the compute service of the claims on a root.
func (o *oracle) nameCompute(h Host) {
	for _, c := range o.claims {
		if c.State.Live() && c.HostUUID == h.UUID {
			c.ServiceHost = h.ServiceHost
		}
	}
}

// poolsText gives the devices of an import that count for an agent's host; "" if the agent knows its instances.
func poolsText(imported, agents Host) string {
	if imported.Facts == nil || !agents.InstancesUnknown {
		return ""
	}
	return imported.Facts.PCIStats
}

// ratiosOf gives the allocation ratios of the root provider, by class.
func ratiosOf(h Host) map[string]float64 {
	ratios := map[string]float64{}
	for _, i := range h.Providers[0].Inventories {
		if i.Total > 0 {
			ratios[i.ResourceClass] = i.AllocationRatio
		}
	}
	return ratios
}

// putRow stores a host. In an agent's host, the ratios of the last import replace those of the
// agent.
func (o *oracle) putRow(h Host) {
	o.reported[h.UUID] = h
	h.Providers = slices.Clone(h.Providers)
	root := &h.Providers[0]
	root.Inventories = slices.Clone(root.Inventories)
	for i := range root.Inventories {
		if ratio, is := o.ratios[h.UUID][root.Inventories[i].ResourceClass]; is && !h.Imported {
			root.Inventories[i].AllocationRatio = ratio
		}
	}
	o.hosts[h.UUID] = h
}

// instances brings the claims on a host in line with a report.
func (o *oracle) instances(p *PutHost, a *answer) {
	for _, c := range o.claims {
		if (c.Adopted || p.Host.Imported && c.State == Confirmed && c.Seen) && c.State.Live() && c.HostUUID == p.Host.UUID && c.TransferredFrom == "" && !o.byNova(c.ConsumerUUID) &&
			!slices.ContainsFunc(p.Instances, func(i Instance) bool { return i.UUID == c.ConsumerUUID }) {
			if older(p, c) {
				a.kept++
				continue
			}
			c.State = Released
			a.released++
		}
	}
	for _, i := range p.Instances {
		if h := o.hosts[p.Host.UUID]; h.PlacementTree {
			i.Allocations = slices.DeleteFunc(slices.Clone(i.Allocations), func(u Used) bool {
				_, has := h.inventory(u.ProviderUUID, u.ResourceClass)
				return !has
			})
		}
		all := slices.DeleteFunc(o.forInstance(i.UUID), func(c *Claim) bool { return !o.onCompute(c) && c.HostUUID != p.Host.UUID })
		here := slices.DeleteFunc(slices.Clone(all), func(c *Claim) bool { return c.HostUUID != p.Host.UUID })
		own := slices.DeleteFunc(slices.Clone(here), func(c *Claim) bool { return c.ConsumerUUID != i.UUID })
		if o.byNova(i.UUID) && len(own) == 1 {
			here = own
		}
		if alike := slices.DeleteFunc(slices.Clone(here), func(c *Claim) bool { return otherAmount(c, i) }); len(here) > 1 && len(alike) == 1 && alike[0].State == Pending {
			here = alike
		}
		if p.Host.Imported && len(all) == 1 && len(here) == 0 && all[0].State == Pending && all[0].ConsumerUUID == i.UUID && !all[0].ForMigration && !older(p, all[0]) {
			all[0].State, all = Released, nil
			a.released++
		}
		switch {
		case len(all) == 0 && len(o.onComputes(i.UUID)) > 0:
			a.conflicts++
		case len(all) == 0:
			a.adopted++
			o.claims = append(o.claims, &Claim{
				ClaimID: fmt.Sprintf("adopted %d", len(o.claims)), ConsumerUUID: i.UUID, State: Confirmed,
				HostUUID: p.Host.UUID, ServiceHost: p.Host.ServiceHost, Allocations: i.Allocations, Adopted: true, Seen: true, ConsumerGeneration: 1,
			})
		case len(here) == 0:
			a.conflicts++
		case len(here) > 1:
		default:
			here[0].Seen = true
			await(here[0], false)
			switch {
			case here[0].Adopted && here[0].TransferredFrom == "":
				takes := i.Allocations
				if older(p, here[0]) {
					takes = larger(here[0].Allocations, i.Allocations)
				}
				if !reflect.DeepEqual(takes, i.Allocations) {
					a.kept++
				}
				if !sameAllocations(here[0].Allocations, takes) {
					here[0].ConsumerGeneration++
				}
				here[0].Allocations = takes
			case here[0].State == Pending:
				a.confirmed++
				if v := here[0].Verdict; v != nil && v.Reason == "ABORTED" {
					here[0].Allocations = i.Allocations
				}
				here[0].Verdict = nil
				o.confirm(here[0])
			}
		}
	}
}

// otherAmount reports whether a claim has a class of the instance's with another amount; disk does not count.
func otherAmount(c *Claim, i Instance) bool {
	for _, is := range i.Allocations {
		for _, has := range c.Allocations {
			if is.ResourceClass != "DISK_GB" && has.ResourceClass == is.ResourceClass && has.ProviderUUID == is.ProviderUUID && has.Amount != is.Amount {
				return true
			}
		}
	}
	return false
}

// older reports whether an import may have read its rows before the claim was written.
func older(p *PutHost, c *Claim) bool {
	return p.Host.Imported && !p.InstancesAt.IsZero() && p.InstancesAt.Before(c.UpdatedAt)
}

// larger gives the larger amount of each provider and class.
func larger(a, b []Used) []Used {
	a = slices.Clone(a)
	for _, x := range b {
		at := slices.IndexFunc(a, func(y Used) bool { return y.ProviderUUID == x.ProviderUUID && y.ResourceClass == x.ResourceClass })
		if at < 0 {
			a = append(a, x)
			continue
		}
		a[at].Amount = max(a[at].Amount, x.Amount)
	}
	return a
}

// over lists the providers and classes of a host that are used beyond capacity.
func (o *oracle) over(host string) map[Used]bool {
	h := o.hosts[host]
	over := map[Used]bool{}
	for _, c := range o.claims {
		for _, a := range c.Allocations {
			if !c.State.Live() || c.HostUUID != host {
				continue
			}
			capacity := 0.0
			for _, p := range h.Providers {
				for _, i := range p.Inventories {
					if p.UUID == a.ProviderUUID && i.ResourceClass == a.ResourceClass {
						capacity = float64(i.Total-i.Reserved)*i.AllocationRatio - float64(i.Unaccounted)
					}
				}
			}
			if float64(o.inUse(host, a.ProviderUUID, a.ResourceClass)) > capacity {
				over[Used{ProviderUUID: a.ProviderUUID, ResourceClass: a.ResourceClass}] = true
			}
		}
	}
	return over
}
