package shard

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxID bounds the length of row keys.
const maxID = 255

const idRule = "must be 1 to 255 visible ASCII characters"

// isID reports whether a name can be a row's key in every backend.
func isID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// idsProblem says which of some ids, each with its path before it, cannot be a row's key; "" for none.
func idsProblem(pathsAndIDs ...string) string {
	for i := 0; i < len(pathsAndIDs); i += 2 {
		if !isID(pathsAndIDs[i+1]) {
			return pathsAndIDs[i] + ": " + idRule
		}
	}
	return ""
}

// textProblem says why some text cannot be stored by every backend; "" for nothing.
func textProblem(path string, texts ...string) string {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return path + ": is not UTF-8"
		}
		if strings.IndexByte(s, 0) >= 0 {
			return path + ": has a NUL"
		}
	}
	return ""
}

func ttlProblem(ttl, most time.Duration) string {
	if ttl <= 0 || ttl > most {
		return fmt.Sprintf("ttl: is %v, must be above 0 and at most %v", ttl, most)
	}
	return ""
}

// allocationsProblem checks the amounts, and that each (provider, class) is listed once.
func allocationsProblem(path string, as []Used) string {
	for i, a := range as {
		at := func() string { return path + "[" + strconv.Itoa(i) + "]" }
		switch {
		case !isID(a.ProviderUUID):
			return at() + ".provider_uuid: " + idRule
		case !isID(a.ResourceClass):
			return at() + ".resource_class: " + idRule
		case a.Amount <= 0 || a.Amount > MaxAmount:
			return fmt.Sprintf("%s.amount: is %d, must be 1 to %d", at(), a.Amount, MaxAmount)
		}
		for _, b := range as[:i] {
			if b.ProviderUUID == a.ProviderUUID && b.ResourceClass == a.ResourceClass {
				return fmt.Sprintf("%s: %s of provider %s stands twice", at(), a.ResourceClass, a.ProviderUUID)
			}
		}
	}
	return ""
}

// takeProblem checks what Claim and Swap have in common.
func takeProblem(claim, consumer, host string, allocations []Used, ttl time.Duration) string {
	if r := idsProblem("claim_id", claim, "consumer_uuid", consumer, "host_uuid", host); r != "" {
		return r
	}
	if len(allocations) == 0 {
		return "allocations: must not be empty"
	}
	return cmp.Or(allocationsProblem("allocations", allocations), ttlProblem(ttl, MaxClaimTTL))
}

func (n *NewClaim) problem() string {
	if r := takeProblem(n.ClaimID, n.ConsumerUUID, n.HostUUID, n.Allocations, n.TTL); r != "" {
		return r
	}
	switch {
	case n.Moves != "" && !isID(n.Moves):
		return "moves_claim_id: " + idRule
	case n.Moves == n.ClaimID:
		return "moves_claim_id: must name another claim"
	case n.Moves == "" && n.MovesCell != "":
		return "moves_cell: must be empty without moves_claim_id"
	}
	return cmp.Or(textProblem("project_id, user_id, request_id or decision_id", n.ProjectID, n.UserID, n.RequestID, n.DecisionID),
		textProblem("moves_cell or attempt", n.MovesCell, n.Attempt), n.Guest.problem(), n.Group.problem())
}

func (g *Guest) problem() string {
	switch {
	case g == nil:
		return ""
	case max(len(g.FlavorID), len(g.Image), len(g.Hardware)) > MaxGuest:
		return fmt.Sprintf("guest: each part has at most %d bytes", MaxGuest)
	}
	return textProblem("guest.flavor_id", g.FlavorID)
}

func (g *Group) problem() string {
	if g == nil {
		return ""
	}
	if !isID(g.UUID) {
		return "group.uuid: " + idRule
	}
	switch g.Policy {
	case affinity, antiAffinity, softAffinity, softAntiAffinity:
	default:
		return fmt.Sprintf("group.policy: is %q, must be one of %s, %s, %s, %s", g.Policy, affinity, antiAffinity, softAffinity, softAntiAffinity)
	}
	for i, m := range g.Members {
		if !isID(m) {
			return "group.members[" + strconv.Itoa(i) + "]: " + idRule
		}
	}
	return ""
}

func (s *Swap) problem() string {
	return takeProblem(s.ClaimID, s.ConsumerUUID, s.HostUUID, s.Allocations, s.TTL)
}

func (f *Transfer) problem() string {
	return idsProblem("claim_id", f.ClaimID, "consumer_uuid", f.ConsumerUUID, "to_consumer", f.ToConsumer)
}

func (r *ClaimRef) problem() string {
	return cmp.Or(idsProblem("claim_id", r.ClaimID, "consumer_uuid", r.ConsumerUUID), textProblem("attempt", r.Attempt))
}

func (n *NewPin) problem() string {
	if n.ServiceHost == "" {
		return "service_host: must not be empty"
	}
	return cmp.Or(idsProblem("group_uuid", n.GroupUUID, "claim_id", n.ClaimID), textProblem("service_host", n.ServiceHost), ttlProblem(n.TTL, MaxPinTTL))
}

func (n *Unpin) problem() string { return idsProblem("group_uuid", n.GroupUUID, "claim_id", n.ClaimID) }

// problem checks a provider; seen are the uuids of those before it.
func (p *Provider) problem(seen map[string]struct{}) string {
	if !isID(p.UUID) {
		return "uuid: " + idRule
	}
	if _, ok := seen[p.UUID]; ok {
		return "uuid: stands twice"
	}
	if _, ok := seen[p.ParentUUID]; !ok && len(seen) > 0 {
		return "parent_uuid: must name a provider before it"
	}
	if r := cmp.Or(textProblem("name", p.Name), textProblem("traits", p.Traits...)); r != "" {
		return r
	}
	for i, inv := range p.Inventories {
		r := inv.problem()
		for _, b := range p.Inventories[:i] {
			if b.ResourceClass == inv.ResourceClass {
				r = "resource_class: stands twice"
			}
		}
		if r != "" {
			return "inventories[" + strconv.Itoa(i) + "]." + r
		}
	}
	return ""
}

// problem checks an inventory. Reserved may be above Total: then nothing fits.
func (i Inventory) problem() string {
	switch {
	case !isID(i.ResourceClass):
		return "resource_class: " + idRule
	case i.Total < 0 || i.Total > MaxAmount:
		return fmt.Sprintf("total: is %d, must be 0 to %d", i.Total, MaxAmount)
	case i.Reserved < 0 || i.Reserved > MaxAmount:
		return fmt.Sprintf("reserved: is %d, must be 0 to %d", i.Reserved, MaxAmount)
	case i.Filled < 0 || i.Filled > MaxAmount:
		return fmt.Sprintf("filled: is %d, must be 0 to %d", i.Filled, MaxAmount)
	case i.Unaccounted < 0 || i.Unaccounted > MaxAmount:
		return fmt.Sprintf("unaccounted: is %d, must be 0 to %d", i.Unaccounted, MaxAmount)
	case i.MinUnit < 1:
		return fmt.Sprintf("min_unit: is %d, must be at least 1", i.MinUnit)
	case i.MaxUnit < 1:
		return fmt.Sprintf("max_unit: is %d, must be at least 1", i.MaxUnit)
	case i.StepSize < 1:
		return fmt.Sprintf("step_size: is %d, must be at least 1", i.StepSize)
	case !(i.AllocationRatio > 0) || math.IsInf(i.AllocationRatio, 0):
		return fmt.Sprintf("allocation_ratio: is %v, must be above 0", i.AllocationRatio)
	}
	return ""
}

func (a *Aggregate) problem() string {
	r := cmp.Or(textProblem("uuid", a.UUID), textProblem("name", a.Name))
	for k, v := range a.Metadata {
		r = cmp.Or(r, textProblem("metadata", k, v))
	}
	return r
}
