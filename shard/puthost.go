package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// putHost registers a host or replaces its state, and updates the claims on it to match the instances that exist.
func (t *transaction) putHost(p *PutHost) Outcome {
	id := p.Host.UUID
	old := t.view.Hosts[id]
	switch {
	case !p.Host.Imported && !t.view.Gate.Native():
		return Outcome{Held: true}
	case p.Host.Imported && old != nil && !old.Imported && t.view.Gate.Native():
		if old.Nova != nil && p.Host.StateVersion < old.Nova.Version {
			return Outcome{OwnedByAgent: true, Unchanged: true, Outdated: true, Overcommitted: overcommitted(old, t.view.Usages[id])}
		}
		nova := novaHostOf(&p.Host)
		o := Outcome{OwnedByAgent: true, Followed: !nova.isAppliedTo(old), InstancesTaken: old.InstancesUnknown && !p.Host.InstancesUnknown}
		h := t.followNova(old, nova)
		if o.InstancesTaken {
			t.alignInstances(h, p, &o)
		}
		if o.InstancesTaken || h != old {
			t.reassign(h)
		}
		o.Overcommitted = overcommitted(h, t.view.Usages[id])
		return o
	case p.isForOtherIncarnation(old):
		return Outcome{CurrentBootID: old.BootID, Overcommitted: overcommitted(old, t.view.Usages[id])}
	case p.isOutdated(old):
		return Outcome{Unchanged: p.Host.Imported, Outdated: p.Host.Imported, Overcommitted: overcommitted(old, t.view.Usages[id])}
	}
	var o Outcome
	h, next := old, p.Host
	if next.PlacementTree = false; next.Imported && old != nil && old.PlacementTree {
		next.keepPlacementTree(old)
	}
	if o.Unchanged = next.Imported && old != nil && old.Imported && sameHost(old, &next); !o.Unchanged {
		h = &next
		h.Nova = nil
		switch {
		case h.Imported || old == nil:
		case old.Imported:
			nova := novaHostOf(old)
			h.follow(&nova)
		default:
			h.follow(old.Nova)
		}
		t.putHostRow(h)
	}

	if !p.Host.InstancesUnknown {
		t.alignInstances(h, p, &o)
	}
	for _, cid := range t.liveOn(id) {
		if c := t.view.Claims[cid]; c.ServiceHost != h.ServiceHost {
			moved := *c
			moved.ServiceHost, moved.UpdatedAt = h.ServiceHost, t.nextWriteTime(c)
			t.putClaim(&moved)
		}
	}
	t.reassign(h)
	o.Overcommitted = overcommitted(h, t.view.Usages[id])
	return o
}

// liveOn lists the live claims on a host, by id.
func (t *transaction) liveOn(host string) []string {
	claims := slices.Clone(t.view.LiveByHost[host])
	slices.Sort(claims)
	return claims
}

// alignInstances updates the claims on a host to match all the instances that exist on it.
func (t *transaction) alignInstances(h *Host, p *PutHost, o *Outcome) {
	exist := make(map[string]struct{}, len(p.Instances))
	for i := range p.Instances {
		exist[p.Instances[i].UUID] = struct{}{}
		t.alignInstance(h, p, &p.Instances[i], o)
	}
	for _, id := range t.liveOn(h.UUID) {
		c := t.view.Claims[id]
		if _, ok := exist[c.ConsumerUUID]; !ok && c.GoesWithout(p.Host.Imported) && !t.isMovedByNova(c.ConsumerUUID) {
			if p.mayPredate(c) {
				o.NewerClaimsSkipped++
				continue
			}
			t.setState(c, Released)
			o.Released++
		}
	}
}

// GoesWithout reports whether a live claim ends when a state lacks its instance. An agent may miss an instance for a
// while; Nova's tables do not. So an import also ends a request's claim, if it had the instance before. A transferred
// claim is not its instance's own.
func (c *Claim) GoesWithout(imported bool) bool {
	return c.TransferredFrom == "" && (c.Adopted || imported && c.State == Confirmed && c.Seen)
}

// mayPredate reports whether an import's rows may be older than a claim's last write.
func (p *PutHost) mayPredate(c *Claim) bool {
	return p.Host.Imported && !p.InstancesAt.IsZero() && c.UpdatedAt.After(p.InstancesAt)
}

// isForOtherIncarnation reports whether the row is of an agent incarnation that the state must not replace.
func (p *PutHost) isForOtherIncarnation(old *Host) bool {
	return p.ExpectedBootID != nil && !p.Host.Imported && old != nil && !old.Imported && old.BootID != p.Host.BootID && old.BootID != *p.ExpectedBootID
}

// isOutdated reports whether the row is of the same incarnation and at least as new. An imported state of the row's
// own version is not outdated: it may have other instances.
func (p *PutHost) isOutdated(old *Host) bool {
	if old == nil || old.Imported != p.Host.Imported || old.BootID != p.Host.BootID {
		return false
	}
	return p.Host.StateVersion < old.StateVersion || p.Host.StateVersion == old.StateVersion && !p.Host.Imported
}

// sameHost reports whether two rows have the same content, whatever their source and version.
func sameHost(a, b *Host) bool {
	sameTrees := slices.EqualFunc(a.Providers, b.Providers, func(p, q Provider) bool {
		return p.UUID == q.UUID && p.ParentUUID == q.ParentUUID && p.Name == q.Name &&
			slices.Equal(p.Traits, q.Traits) && slices.Equal(p.Inventories, q.Inventories)
	})
	if !sameTrees || !SameAggregates(a.Aggregates, b.Aggregates) {
		return false
	}
	x, y := *a, *b
	for _, h := range []*Host{&x, &y} { // compared above, or not part of the host's content
		h.Providers, h.Aggregates, h.Nova, h.BootID, h.StateVersion, h.Generation = nil, nil, nil, "", 0, 0
		h.UUID, h.AgentVersion, h.Imported, h.PlacementTree = "", 0, false, false
	}
	return reflect.DeepEqual(&x, &y)
}

// adoptable gives what an adopted claim of a reported instance takes. Nova's rows have only VCPU, MEMORY_MB and
// DISK_GB. A tree that the Placement API reports may lack one of them, and refuses writes while it is in use there.
func (h *Host) adoptable(reported []Used) []Used {
	if !h.PlacementTree {
		return reported
	}
	return slices.DeleteFunc(slices.Clone(reported), func(a Used) bool {
		_, ok := h.inventory(a.ProviderUUID, a.ResourceClass)
		return !ok
	})
}

// alignInstance updates the claim of an instance that exists on the host.
func (t *transaction) alignInstance(h *Host, p *PutHost, i *Instance, o *Outcome) {
	reported := h.adoptable(i.Allocations)
	ids := t.claimsOfInstance(i.UUID, h.UUID)
	if c := t.rescheduled(ids, h, p); c != nil {
		t.setState(c, Released)
		o.Released++
		ids = nil
	}
	if len(ids) == 0 && slices.ContainsFunc(t.view.LiveByConsumer[i.UUID], t.isOnCompute) {
		o.ClaimedElsewhere++ // the instance holds a claim transferred to it: nothing is adopted beside it (I2)
		return
	}
	if len(ids) == 0 {
		c := &Claim{
			ClaimID: t.newClaimID("adopted-", h, i.UUID), ConsumerUUID: i.UUID, State: Confirmed,
			HostUUID: h.UUID, ServiceHost: h.ServiceHost, Allocations: reported,
			ProjectID: i.ProjectID, UserID: i.UserID,
			Adopted: true, Seen: true, ConsumerGeneration: 1, CreatedAt: t.now, UpdatedAt: t.now,
		}
		t.moveUsage(h.UUID, nil, c)
		t.putClaim(c)
		o.Adopted++
		return
	}
	var here []*Claim
	for _, id := range ids {
		if c := t.view.Claims[id]; c.HostUUID == h.UUID {
			here = append(here, c)
		}
	}
	own := slices.DeleteFunc(slices.Clone(here), func(c *Claim) bool { return c.TransferredFrom != "" })
	if len(own) == 1 && t.isMovedByNova(i.UUID) {
		here = own // if it was resized within the host, Nova ends both claims
	}
	switch {
	case len(here) == 0:
		o.ClaimedElsewhere++
		return
	case len(here) > 1:
		// Moved within the host: it has happened if the instance has the amounts of the pending claim alone.
		here = slices.DeleteFunc(here, func(c *Claim) bool { return c.contradicts(reported) })
		if len(here) != 1 || here[0].State != Pending {
			return
		}
	}
	switch c := here[0]; {
	case c.State == Pending:
		seen := *c
		seen.Seen, seen.Verdict = true, nil
		if c.GaveBack() {
			seen.Allocations = reported
			t.moveUsage(h.UUID, c, &seen)
		}
		t.confirmClaim(&seen)
		o.Confirmed++
	case !c.Adopted && !c.Seen || c.Guest != nil && c.Guest.Awaited:
		n := *c.awaiting(false)
		n.Seen, n.UpdatedAt = true, t.nextWriteTime(c)
		t.putClaim(&n)
	case c.Adopted && c.TransferredFrom == "" && !sameAllocations(c.Allocations, reported):
		takes := reported
		if p.mayPredate(c) {
			if takes = most(c.Allocations, reported); !sameAllocations(takes, reported) {
				o.NewerClaimsSkipped++
			}
			if sameAllocations(takes, c.Allocations) {
				return
			}
		}
		n := *c
		n.Allocations, n.UpdatedAt = takes, t.nextWriteTime(c)
		n.ConsumerGeneration++
		t.moveUsage(h.UUID, c, &n)
		t.putClaim(&n)
	}
}

// contradicts reports whether the claim has another amount of a class than its instance was reported with. Disk does not
// count: Nova's rows have no swap.
func (c *Claim) contradicts(reported []Used) bool {
	return slices.ContainsFunc(reported, func(is Used) bool {
		return is.ResourceClass != "DISK_GB" && slices.ContainsFunc(c.Allocations, func(has Used) bool {
			return compareUsed(has, is) == 0 && has.Amount != is.Amount
		})
	})
}

// rescheduled gives the only claim of an instance that an import has on h, if the claim is pending on another host: its
// build failed there, and Nova built the instance on an alternate, which it claimed in Placement. nil for no such claim.
func (t *transaction) rescheduled(ids []string, h *Host, p *PutHost) *Claim {
	if !p.Host.Imported || len(ids) != 1 {
		return nil
	}
	c := t.view.Claims[ids[0]]
	if c.State != Pending || c.HostUUID == h.UUID || c.TransferredFrom != "" || c.ForMigration || p.mayPredate(c) {
		return nil
	}
	return c
}

// newClaimID makes the id of a claim that no caller named. It is unique, since a host's generation does not repeat, and
// the same each time the batch is decided.
func (t *transaction) newClaimID(prefix string, h *Host, consumer string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", h.UUID, t.nextGeneration(h.UUID), consumer))
	return prefix + hex.EncodeToString(sum[:16])
}

func sameAllocations(a, b []Used) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.SortFunc(x, compareUsed)
	slices.SortFunc(y, compareUsed)
	return slices.Equal(x, y)
}

// most gives the greater amount of each (provider, class).
func most(a, b []Used) []Used {
	a = slices.Clone(a)
	for _, x := range b {
		i := slices.IndexFunc(a, func(y Used) bool { return compareUsed(x, y) == 0 })
		if i < 0 {
			a = append(a, x)
			continue
		}
		a[i].Amount = max(a[i].Amount, x.Amount)
	}
	return a
}

// problem says what is wrong with the operation; "" when nothing is.
func (p *PutHost) problem() string {
	h := &p.Host
	if r := cmp.Or(
		textProblem("host.service_host", h.ServiceHost), textProblem("host.node_name", h.NodeName), textProblem("host.disabled_reason", h.DisabledReason),
		textProblem("host.hypervisor_type", h.HypervisorType), textProblem("host.host_ip", h.HostIP), textProblem("host.boot_id", h.BootID),
	); r != "" {
		return r
	}
	if f := h.Facts; f != nil {
		for _, text := range [...]string{f.CPUInfo, f.SupportedInstances, f.Stats, f.Metrics, f.NUMATopology, f.PCIStats, f.Namespaces} {
			if len(text) > MaxFact || !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
				return "host.facts: each must be at most " + strconv.Itoa(MaxFact) + " bytes of UTF-8, without NUL"
			}
		}
	}
	switch {
	case !isID(h.UUID):
		return "host.uuid: " + idRule
	case h.ServiceHost == "":
		return "host.service_host: must not be empty"
	case h.InstancesUnknown && len(p.Instances) > 0:
		return "instances: must be empty with host.instances_unknown"
	case len(h.Providers) == 0:
		return "host.providers: must name the root provider"
	case h.Providers[0].UUID != h.UUID:
		return "host.providers[0].uuid: must be the host's uuid, it is the root"
	case h.Providers[0].ParentUUID != "":
		return "host.providers[0].parent_uuid: must be empty, it is the root"
	}
	seen := map[string]struct{}{}
	for i := range h.Providers {
		if r := h.Providers[i].problem(seen); r != "" {
			return "host.providers[" + strconv.Itoa(i) + "]." + r
		}
		seen[h.Providers[i].UUID] = struct{}{}
	}
	for i := range h.Aggregates {
		if r := h.Aggregates[i].problem(); r != "" {
			return "host.aggregates[" + strconv.Itoa(i) + "]." + r
		}
	}
	clear(seen)
	for i := range p.Instances {
		in := &p.Instances[i]
		at := "instances[" + strconv.Itoa(i) + "]."
		if !isID(in.UUID) {
			return at + "uuid: " + idRule
		}
		if _, ok := seen[in.UUID]; ok {
			return at + "uuid: stands twice"
		}
		seen[in.UUID] = struct{}{}
		if r := cmp.Or(allocationsProblem(at+"allocations", in.Allocations), textProblem(at+"project_id or user_id", in.ProjectID, in.UserID)); r != "" {
			return r
		}
	}
	return ""
}
