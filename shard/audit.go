package shard

import (
	"slices"
	"time"

	"cellgate/internal/fault"
)

// Audit compares a host's stored usage with the sum of its live claims, in one transaction. An unknown host is
// audited too.
type Audit struct {
	HostUUID string
	// Repair replaces a usage that differs by the sum.
	Repair bool
}

// Audited is what an Audit found.
type Audited struct {
	// Usage is the stored usage before any repair; nil when there is none.
	Usage *Usage
	// Sum is what the claims use; it has no Generation. Differs: Usage is not equal to it.
	Sum     Usage
	Differs bool
}

// audit reads a host; see Audit.
func (t *transaction) audit(a *Audit) Outcome {
	if !isID(a.HostUUID) {
		return refused(fault.InvalidRequest, "host_uuid: %s", idRule)
	}
	found := &Audited{Usage: t.view.Usages[a.HostUUID], Sum: Usage{HostUUID: a.HostUUID}}
	for _, id := range t.liveOn(a.HostUUID) {
		found.Sum.count(t.view.Claims[id], +1)
	}
	found.Differs = !SameUse(found.Usage, &found.Sum)
	if found.Differs && a.Repair {
		u := found.Sum
		u.Generation = t.nextGeneration(a.HostUUID)
		t.view.Usages[a.HostUUID] = &u
		t.touch(usageRow, a.HostUUID)
	}
	return Outcome{Audited: found}
}

// SameUse reports whether two usages, nil for none, are equal but for their generation.
func SameUse(a, b *Usage) bool {
	var none Usage
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	return a.Pending == b.Pending && a.Confirmed == b.Confirmed && slices.Equal(a.Used, b.Used)
}

// whyNotGone says why a claim stays although a report does not have its instance; "" when it may be released. by and
// deleted are ClaimRef's ReportedGoneBy and Deleted.
func (t *transaction) whyNotGone(c *Claim, by Registration, deleted time.Time) string {
	h, byRow := t.view.Hosts[c.HostUUID], !deleted.IsZero()
	switch {
	case c.State != Confirmed:
		return "it is " + string(c.State)
	case byRow && c.UpdatedAt.After(deleted):
		return "it is newer than the rows"
	case !byRow && !c.Seen:
		return "no report had its instance before"
	case c.TransferredFrom != "":
		return "it was transferred"
	case !byRow && len(t.claimsOfInstance(c.Instance(), c.HostUUID)) > 1:
		return "its instance has another claim"
	case byRow && h != nil && h.Imported:
		return "" // Nova's tables speak for the host
	case h == nil || h.Imported || h.InstancesUnknown:
		return "no agent that knows its instances speaks for its host"
	case h.Registration() != by:
		return "its host has reported since"
	}
	return ""
}
