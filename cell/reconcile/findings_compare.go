package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cellgate/cell/replica"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// findingKey identifies a finding within its cell.
type findingKey struct {
	kind                                   cellgatev1.Finding_Kind
	host, claim, instance, provider, class string
}

func keyOf(f *cellgatev1.Finding) findingKey {
	return findingKey{
		kind: f.GetKind(), host: f.GetHostUuid(), claim: f.GetClaimId(), instance: f.GetConsumerUuid(),
		provider: f.GetProviderUuid(), class: f.GetResourceClass(),
	}
}

// fromReports reports whether only a host's report shows findings of this kind.
func (k findingKey) fromReports() bool {
	switch k.kind {
	case cellgatev1.Finding_ORPHANED_CLAIM, cellgatev1.Finding_UNCLAIMED_INSTANCE, cellgatev1.Finding_CLAIMED_ELSEWHERE, cellgatev1.Finding_AMOUNTS_DIFFER:
		return true
	}
	return false
}

// CompareHost returns the mismatches on a host at this moment. instances are those of its report; nil
// if there is no comparable report. It is pure.
func CompareHost(v replica.HostView, instances map[string]*agentv1.Instance) (found []*cellgatev1.Finding) {
	if v.Row == nil || v.Row.Host == nil {
		return nil
	}
	h := v.Row.Host
	add := func(kind cellgatev1.Finding_Kind, format string, args ...any) *cellgatev1.Finding {
		f := &cellgatev1.Finding{Kind: kind, HostUuid: h.UUID, ServiceHost: h.ServiceHost, Detail: fmt.Sprintf(format, args...)}
		found = append(found, f)
		return f
	}
	for _, c := range v.Claims {
		id := c.Instance()
		all := v.Of[id]
		if other := doubled(c, all); other != nil {
			f := add(cellgatev1.Finding_DOUBLED_CLAIM, "claim %s on %s is %s, claim %s on %s is %s", c.ClaimID, c.ServiceHost, c.State, other.ClaimID, other.ServiceHost, other.State)
			f.ClaimId, f.ConsumerUuid, f.OtherHostUuid, f.OtherClaimId = c.ClaimID, id, other.HostUUID, other.ClaimID
		}
		if instances == nil || c.State != shard.Confirmed || c.TransferredFrom != "" {
			continue
		}
		in, there := instances[id]
		switch {
		case !there && !movedOn(c, all):
			f := add(cellgatev1.Finding_ORPHANED_CLAIM, "no report of the host has had the instance since the claim is there")
			if c.Seen {
				f.Detail = "the host had the instance, and does not report it any more"
			}
			f.ClaimId, f.ConsumerUuid = c.ClaimID, id
		case there && len(all) == 1 && len(in.GetUsages()) > 0:
			if reported := usagesOf(in); !sameAmounts(reported, c.Allocations) {
				f := add(cellgatev1.Finding_AMOUNTS_DIFFER, "the host reports %s, the claim has %s", amountsText(reported), amountsText(c.Allocations))
				f.ClaimId, f.ConsumerUuid = c.ClaimID, id
			}
		}
	}
	for id := range instances {
		all := v.Of[id]
		switch {
		case len(all) == 0 && v.Consumers[id] != nil:
			c := v.Consumers[id]
			f := add(cellgatev1.Finding_UNCLAIMED_INSTANCE, "nothing is adopted: the instance is the consumer of claim %s, which holds what is instance %s's", c.ClaimID, c.Instance())
			f.ConsumerUuid, f.OtherHostUuid, f.OtherClaimId = id, c.HostUUID, c.ClaimID
		case len(all) == 0:
			add(cellgatev1.Finding_UNCLAIMED_INSTANCE, "the instance exists, and nothing is charged for it").ConsumerUuid = id
		case !slices.ContainsFunc(all, func(c *shard.Claim) bool { return c.HostUUID == h.UUID }):
			f := add(cellgatev1.Finding_CLAIMED_ELSEWHERE, "the instance exists here, and its claim is on %s", all[0].ServiceHost)
			f.ConsumerUuid, f.OtherHostUuid, f.OtherClaimId = id, all[0].HostUUID, all[0].ClaimID
		}
	}
	if text := novaDifference(h); text != "" {
		add(cellgatev1.Finding_NOVA_DIFFERS, "%s", text)
	}
	return append(found, overcommits(v)...)
}

// maxNovaDetails bounds the contradictions that are listed for one host.
const maxNovaDetails = 4

// novaDifference says where an agent's file contradicts Nova's data of its host; "" for nowhere.
func novaDifference(h *shard.Host) string {
	n := h.Nova
	if n == nil {
		return ""
	}
	var all []string
	for _, a := range n.ReportedAggregates {
		at := slices.IndexFunc(n.Aggregates, func(o shard.Aggregate) bool { return o.UUID == a.UUID })
		switch {
		case at < 0 && slices.Contains(n.Left, a.UUID):
			all = append(all, fmt.Sprintf("Nova took the host out of aggregate %s (%s), the agent's file has it", a.Name, a.UUID))
		case at < 0:
			nova, agents := zoneOf(n.Aggregates), a.Metadata[zoneKey]
			if nova != "" && agents != "" && nova != agents {
				all = append(all, fmt.Sprintf("Nova has the host in zone %s, the agent's aggregate %s (%s) in %s", nova, a.Name, a.UUID, agents))
			}
		case n.Aggregates[at].Name != a.Name:
			all = append(all, fmt.Sprintf("Nova calls aggregate %s %q, the agent's file %q", a.UUID, n.Aggregates[at].Name, a.Name))
		case !maps.Equal(n.Aggregates[at].Metadata, a.Metadata):
			all = append(all, fmt.Sprintf("Nova has aggregate %s (%s) with %s, the agent's file with %s", a.Name, a.UUID, pairsText(n.Aggregates[at].Metadata), pairsText(a.Metadata)))
		}
	}
	for _, class := range slices.Sorted(maps.Keys(n.ReportedRatios)) {
		all = append(all, fmt.Sprintf("Nova's allocation ratio of %s is %v, the agent's %v", class, n.Ratios[class], n.ReportedRatios[class]))
	}
	if len(all) == 0 {
		return ""
	}
	if more := len(all) - maxNovaDetails; more > 0 {
		all = append(all[:maxNovaDetails], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, "; ") + ". Nova's count: change agent.host of the agent's file to match, and send it SIGHUP"
}

// zoneKey is the metadata key of an availability zone.
const zoneKey = "availability_zone"

func zoneOf(in []shard.Aggregate) string {
	for _, a := range in {
		if z := a.Metadata[zoneKey]; z != "" {
			return z
		}
	}
	return ""
}

func pairsText(pairs map[string]string) string {
	list := []string{}
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		list = append(list, k+"="+pairs[k])
	}
	text := []rune("[" + strings.Join(list, ", ") + "]")
	if len(text) > 200 {
		return string(text[:200]) + "…"
	}
	return string(text)
}

// doubled returns another live claim of a claim's instance if the two may not coexist. It returns nil
// if there is none, and for every claim of the instance except the first by claim_id. The Placement API
// may give an instance any number of claims.
func doubled(c *shard.Claim, all []*shard.Claim) *shard.Claim {
	if len(all) < 2 || all[0].ClaimID != c.ClaimID {
		return nil
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			moved := a.Moves == b.ClaimID && a.State == shard.Pending || b.Moves == a.ClaimID && b.State == shard.Pending
			if !moved && !a.Allocated && !b.Allocated && a.TransferredFrom == "" && b.TransferredFrom == "" {
				return b
			}
		}
	}
	return nil
}

// movedOn reports whether a live claim is a move of c.
func movedOn(c *shard.Claim, all []*shard.Claim) bool {
	return slices.ContainsFunc(all, func(o *shard.Claim) bool { return o.Moves == c.ClaimID })
}

// overcommits returns the usage beyond capacity.
func overcommits(v replica.HostView) (found []*cellgatev1.Finding) {
	if v.Row.Usage == nil {
		return nil
	}
	h, adopted := v.Row.Host, 0
	for _, c := range v.Claims {
		if c.Adopted {
			adopted++
		}
	}
	for _, u := range v.Row.Usage.Used {
		capacity := int64(0)
		for _, p := range h.Providers {
			for _, i := range p.Inventories {
				if p.UUID == u.ProviderUUID && i.ResourceClass == u.ResourceClass {
					capacity = i.Capacity() - i.Unaccounted
				}
			}
		}
		if u.Amount > capacity {
			found = append(found, &cellgatev1.Finding{
				Kind: cellgatev1.Finding_OVERCOMMITTED, HostUuid: h.UUID, ServiceHost: h.ServiceHost, ProviderUuid: u.ProviderUUID, ResourceClass: u.ResourceClass,
				Detail: fmt.Sprintf("%d are in use of %d; of %d claims on the host %d were adopted from what it reported", u.Amount, capacity, len(v.Claims), adopted),
			})
		}
	}
	return found
}

func usagesOf(i *agentv1.Instance) []shard.Used {
	list := make([]shard.Used, len(i.GetUsages()))
	for n, u := range i.GetUsages() {
		list[n] = shard.Used{ProviderUUID: strings.ToLower(u.GetProviderUuid()), ResourceClass: u.GetResourceClass(), Amount: int64(u.GetAmount())}
	}
	return list
}

func sameAmounts(a, b []shard.Used) bool {
	return slices.Equal(a, b) || slices.Equal(sortedAmounts(a), sortedAmounts(b))
}

func sortedAmounts(list []shard.Used) []shard.Used {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b shard.Used) int {
		return cmp.Or(strings.Compare(a.ProviderUUID, b.ProviderUUID), strings.Compare(a.ResourceClass, b.ResourceClass))
	})
	return list
}

// amountsText shows the sums by class.
func amountsText(list []shard.Used) string {
	sums := map[string]int64{}
	var classes []string
	for _, u := range list {
		if _, ok := sums[u.ResourceClass]; !ok {
			classes = append(classes, u.ResourceClass)
		}
		sums[u.ResourceClass] += u.Amount
	}
	slices.Sort(classes)
	for i, c := range classes {
		classes[i] = fmt.Sprintf("%d %s", sums[c], c)
	}
	return strings.Join(classes, ", ")
}
