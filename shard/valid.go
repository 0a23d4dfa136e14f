package shard

import (
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

func (n *NewClaim) problem() string {
	switch {
	case !isID(n.ClaimID):
		return "claim_id: " + idRule
	case !isID(n.ConsumerUUID):
		return "consumer_uuid: " + idRule
	case !isID(n.HostUUID):
		return "host_uuid: " + idRule
	case len(n.Allocations) == 0:
		return "allocations: must not be empty"
	}
	if r := allocationsProblem("allocations", n.Allocations); r != "" {
		return r
	}
	if r := ttlProblem(n.TTL, MaxClaimTTL); r != "" {
		return r
	}
	if r := textProblem("project_id, user_id, request_id or decision_id", n.ProjectID, n.UserID, n.RequestID, n.DecisionID); r != "" {
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
	if r := textProblem("moves_cell or attempt", n.MovesCell, n.Attempt); r != "" {
		return r
	}
	if g := n.Guest; g != nil {
		if r := textProblem("guest.flavor_id", g.FlavorID); r != "" {
			return r
		}
		if max(len(g.FlavorID), len(g.Image), len(g.Hardware)) > MaxGuest {
			return fmt.Sprintf("guest: each part has at most %d bytes", MaxGuest)
		}
	}
	return n.Group.problem()
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
	switch {
	case !isID(s.ClaimID):
		return "claim_id: " + idRule
	case !isID(s.ConsumerUUID):
		return "consumer_uuid: " + idRule
	case !isID(s.HostUUID):
		return "host_uuid: " + idRule
	case len(s.Allocations) == 0:
		return "allocations: must not be empty"
	}
	if r := allocationsProblem("allocations", s.Allocations); r != "" {
		return r
	}
	return ttlProblem(s.TTL, MaxClaimTTL)
}

func (f *Transfer) problem() string {
	switch {
	case !isID(f.ClaimID):
		return "claim_id: " + idRule
	case !isID(f.ConsumerUUID):
		return "consumer_uuid: " + idRule
	case !isID(f.ToConsumer):
		return "to_consumer: " + idRule
	}
	return ""
}

func (r *ClaimRef) problem() string {
	switch {
	case !isID(r.ClaimID):
		return "claim_id: " + idRule
	case !isID(r.ConsumerUUID):
		return "consumer_uuid: " + idRule
	}
	return textProblem("attempt", r.Attempt)
}

func (n *NewPin) problem() string {
	switch {
	case !isID(n.GroupUUID):
		return "group_uuid: " + idRule
	case !isID(n.ClaimID):
		return "claim_id: " + idRule
	case n.ServiceHost == "":
		return "service_host: must not be empty"
	}
	if r := textProblem("service_host", n.ServiceHost); r != "" {
		return r
	}
	return ttlProblem(n.TTL, MaxPinTTL)
}

func (n *Unpin) problem() string {
	switch {
	case !isID(n.GroupUUID):
		return "group_uuid: " + idRule
	case !isID(n.ClaimID):
		return "claim_id: " + idRule
	}
	return ""
}

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
	if r := textProblem("name", p.Name); r != "" {
		return r
	}
	if r := textProblem("traits", p.Traits...); r != "" {
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
	if r := textProblem("uuid", a.UUID); r != "" {
		return r
	}
	if r := textProblem("name", a.Name); r != "" {
		return r
	}
	for k, v := range a.Metadata {
		if r := textProblem("metadata", k, v); r != "" {
			return r
		}
	}
	return ""
}
