package shard

import "slices"

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

func (a *Audit) problem() string { return idsProblem("host_uuid", a.HostUUID) }

// audit reads a host; see Audit.
func (t *transaction) audit(a *Audit) Outcome {
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
