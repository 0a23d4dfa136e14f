package shard

import (
	"slices"
	"time"

	"cellgate/internal/fault"
)

// leaseIsOver reports whether a lease has ended.
func (t *transaction) leaseIsOver(c *Claim) bool { return !t.now.Before(c.ExpiresAt) }

// confirm ends the lease of a claim, which then stays until it is released. A claim whose lease is over but that is
// not yet EXPIRED still holds its resources and is confirmed. An EXPIRED claim takes the same allocation again if it
// still fits: CONFIRMED, or PENDING with ClaimRef.Reinstate. A hard-affinity claim does not come back: its group may
// now be in another cell, which this shard cannot see.
//
// With ClaimRef.Lease, a PENDING claim in a later lease that the caller does not know is unchanged.
//
// A claim that its host rejected (RecordVerdict) is refused, CLAIM_REJECTED.
//
// The claim that it moves is released with it, if that is live and of the same consumer. Once either was transferred,
// each consumer releases its own.
func (t *transaction) confirm(ref *ClaimRef) Outcome {
	c := t.view.Claims[ref.ClaimID]
	if c == nil || c.ConsumerUUID != ref.ConsumerUUID {
		return refused(fault.NotFound, "no claim %s of consumer %s", ref.ClaimID, ref.ConsumerUUID)
	}
	switch c.State {
	case Confirmed:
		return Outcome{Claim: c}
	case Pending:
		if c.rejected() {
			return rejection(c)
		}
		if ref.Lease != nil && !c.inFirstLease() && !c.ExpiresAt.Equal(*ref.Lease) {
			return Outcome{Claim: c}
		}
		return Outcome{Claim: t.confirmClaim(c.awaiting(true))}
	case Rejected:
		return rejection(c)
	case Expired:
		if c.rejected() {
			return rejection(c)
		}
		again := *c
		again.ConsumerGeneration = t.consumerGeneration(c.ConsumerUUID) + 1
		if why := t.whyLost(&again); why != "" {
			return refusedFor(c, fault.ClaimExpired, "claim %s expired, and cannot be taken again: %s", c.ClaimID, why)
		}
		if ref.Reinstate {
			return Outcome{Claim: t.reinstateClaim(&again)}
		}
		return Outcome{Claim: t.confirmClaim(again.awaiting(true))}
	default:
		return refusedFor(c, fault.ClaimExpired, "claim %s was released", c.ClaimID)
	}
}

// reinstateClaim makes an expired claim PENDING with a short lease, never longer than its own TTL: perhaps no caller
// returns to confirm it.
func (t *transaction) reinstateClaim(c *Claim) *Claim {
	again := *c
	lease := ReinstateTTL
	if c.TTL > 0 {
		lease = min(lease, c.TTL)
	}
	again.ExpiresAt = t.now.Add(lease)
	return t.setState(&again, Pending)
}

// inFirstLease reports whether a PENDING claim has been live since it was made. Every later lease begins after the
// one before it is over, or with a Swap.
func (c *Claim) inFirstLease() bool { return c.ExpiresAt.Equal(c.CreatedAt.Add(c.TTL)) }

// confirmClaim confirms a claim, and releases the claim that it moves. The consumer keeps its generation: Nova may have
// read it before, to write the consumer's allocations.
func (t *transaction) confirmClaim(c *Claim) *Claim {
	if c.TransferredFrom != "" || !slices.Contains(t.view.LiveByConsumer[c.ConsumerUUID], c.Moves) {
		return t.setState(c, Confirmed)
	}
	alone := *c
	alone.ConsumerGeneration = max(c.ConsumerGeneration, t.consumerGeneration(c.ConsumerUUID))
	n := t.setState(&alone, Confirmed)
	t.setState(t.view.Claims[c.Moves], Released)
	return n
}

// awaiting gives a copy of the claim with this Guest.Awaited, or the claim itself if it has no hardware or has that
// value.
func (c *Claim) awaiting(awaited bool) *Claim {
	if !c.Guest.HasHardware() || c.Guest.Awaited == awaited {
		return c
	}
	n, g := *c, *c.Guest
	g.Awaited = awaited
	n.Guest = &g
	return &n
}

// whyLost says why an expired claim cannot be taken again; "" when it can. It must fit beside the claim that it
// moves. A disabled host does not matter: the instance is already there. roomFor then has assigned NUMA cells and
// devices to the claim.
func (t *transaction) whyLost(c *Claim) string {
	if other := t.inTheWay(c.ConsumerUUID, c.Moves); other != nil {
		return "its consumer has claim " + other.ClaimID
	}
	h := t.view.Hosts[c.HostUUID]
	if h == nil {
		return "its host is gone"
	}
	if c.Group != nil && c.Group.Policy == affinity {
		return "its affinity group may be on another host by now"
	}
	if r := t.roomFor(h, c); r != nil {
		return r.Message
	}
	return ""
}

// release ends a claim, unless the reference protects it (ClaimRef.Attempt, ClaimRef.PendingOnly, ClaimRef.Unchanged,
// ClaimRef.ReportedGoneBy). An unknown claim_id becomes a tombstone, so that a late NewClaim with it is refused.
func (t *transaction) release(ref *ClaimRef) Outcome {
	c := t.view.Claims[ref.ClaimID]
	switch {
	case c == nil && ref.ReportedGoneBy != nil:
		return refused(fault.NotFound, "no claim %s of consumer %s", ref.ClaimID, ref.ConsumerUUID)
	case c == nil:
		c = &Claim{
			ClaimID: ref.ClaimID, ConsumerUUID: ref.ConsumerUUID, State: Released,
			CreatedAt: t.now, UpdatedAt: t.now,
		}
		t.putClaim(c)
		return Outcome{Claim: c}
	case c.ConsumerUUID != ref.ConsumerUUID:
		return refused(fault.InvalidRequest, "consumer_uuid: claim %s is of another consumer", c.ClaimID)
	case c.State == Released, c.State == Rejected:
		return Outcome{Claim: c}
	case ref.Unchanged != nil && !c.UpdatedAt.Equal(*ref.Unchanged):
		return refusedFor(c, fault.StaleGeneration, "claim %s was changed since it was looked at", c.ClaimID)
	case ref.ReportedGoneBy != nil:
		if why := t.whyNotGone(c, *ref.ReportedGoneBy, ref.Deleted); why != "" {
			return refusedFor(c, fault.StaleGeneration, "claim %s stays: %s", c.ClaimID, why)
		}
	case c.State == Confirmed && (ref.PendingOnly || ref.Attempt != ""):
		return refusedFor(c, fault.AlreadyExists, "claim %s is confirmed", c.ClaimID)
	case ref.Attempt != "" && ref.Attempt != c.Attempt:
		return refusedFor(c, fault.AlreadyExists, "claim %s was kept by another attempt", c.ClaimID)
	}
	// An EXPIRED claim is released too: a late confirm cannot bring it back.
	return Outcome{Claim: t.setState(c, Released)}
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
	case byRow && h != nil && (h.Imported || h.InstancesUnknown):
		return "" // Nova's tables list the host's instances
	case h == nil || h.Imported || h.InstancesUnknown:
		return "no agent that knows its instances speaks for its host"
	case h.Registration() != by:
		return "its host has reported since"
	}
	return ""
}

// takeOver gives a live claim to another attempt. The earlier attempt can no longer release it.
func (t *transaction) takeOver(ref *ClaimRef) Outcome {
	if ref.Attempt == "" {
		return refused(fault.InvalidRequest, "attempt: must not be empty")
	}
	c := t.view.Claims[ref.ClaimID]
	switch {
	case c == nil || c.ConsumerUUID != ref.ConsumerUUID:
		return refused(fault.NotFound, "no claim %s of consumer %s", ref.ClaimID, ref.ConsumerUUID)
	case !c.State.Live():
		return refusedFor(c, fault.ClaimExpired, "claim %s has ended: %s", c.ClaimID, c.State)
	case c.Attempt == ref.Attempt:
		return Outcome{Claim: c}
	}
	n := *c
	n.Attempt, n.UpdatedAt = ref.Attempt, t.nextWriteTime(c)
	t.putClaim(&n)
	return Outcome{Claim: &n}
}

// expire ends a PENDING claim whose lease is over, and does nothing to any other. If Nova's migration holds the
// instance's former claim, or did when the claim was made, the claim is confirmed instead: the migration may just have
// ended, and no import has seen the instance arrive.
func (t *transaction) expire(ref *ClaimRef) Outcome {
	c := t.view.Claims[ref.ClaimID]
	if c == nil || c.ConsumerUUID != ref.ConsumerUUID {
		return Outcome{}
	}
	if c.State != Pending || !t.leaseIsOver(c) {
		return Outcome{Claim: c}
	}
	if !c.rejected() && !t.movesAnother(c) && (c.ForMigration || t.isMovedByNova(c.ConsumerUUID)) {
		return Outcome{Claim: t.setState(c.awaiting(true), Confirmed)}
	}
	return Outcome{Claim: t.setState(c, Expired)}
}

// isMovedByNova reports whether the Placement API gave an instance's claim to another consumer: Nova does so for each
// resize or migration, which may take hours. Nova then ends the instance's new claim itself, however the move ends.
func (t *transaction) isMovedByNova(instance string) bool {
	return slices.ContainsFunc(t.view.TransferredFrom[instance], func(id string) bool { return t.view.Claims[id].Allocated })
}

// setState moves a claim to another state, and updates its host's usage.
func (t *transaction) setState(c *Claim, s ClaimState) *Claim {
	n := *c
	n.State, n.UpdatedAt = s, t.nextWriteTime(c)
	if s != Pending {
		n.ExpiresAt = time.Time{}
	}
	if c.State.Live() || s.Live() {
		t.moveUsage(c.HostUUID, c, &n)
	}
	t.putClaim(&n)
	return &n
}
