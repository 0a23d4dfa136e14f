package shard

import (
	"slices"

	"cellgate/internal/fault"
	"cellgate/schedule"
	"cellgate/schedule/hardware"
)

// swap puts a claim on another host; see Swap.
func (t *transaction) swap(s *Swap) Outcome {
	c := t.view.Claims[s.ClaimID]
	switch {
	case c == nil || c.ConsumerUUID != s.ConsumerUUID:
		return refused(fault.NotFound, "no claim %s of consumer %s", s.ClaimID, s.ConsumerUUID)
	case c.State == Released:
		return refusedFor(c, fault.ClaimExpired, "claim %s was released", c.ClaimID)
	case c.State == Rejected:
		return refusedFor(c, fault.ClaimExpired, "claim %s was rejected by its host", c.ClaimID)
	case c.State.Live() && c.HostUUID == s.HostUUID:
		return Outcome{Claim: c}
	case c.State == Confirmed:
		return refusedFor(c, fault.AlreadyExists, "claim %s is confirmed on host %s", c.ClaimID, c.ServiceHost)
	case c.State == Expired:
		if other := t.inTheWayBack(c); other != nil {
			return hasClaim(c.ConsumerUUID, other)
		}
		if c.Group != nil && c.Group.Policy == affinity {
			return refusedFor(c, fault.ClaimExpired, "claim %s expired, and its affinity group may be on another host by now", c.ClaimID)
		}
	}
	h, r := t.openHost(s.HostUUID)
	if r != nil {
		return Outcome{Refusal: r}
	}
	n := *c
	n.State, n.HostUUID, n.ServiceHost, n.Allocations = Pending, h.UUID, h.ServiceHost, s.Allocations
	n.Answer, n.TTL, n.ExpiresAt, n.UpdatedAt, n.Seen = s.Answer, s.TTL, t.now.Add(s.TTL), t.nextWriteTime(c), false
	n.ConsumerGeneration = t.consumerGeneration(c.ConsumerUUID) + 1
	n.Verdict, n.Rejections = nil, c.rejections() // the verdict is of the host before
	if c.Guest.HasHardware() {
		check, err := hardware.DecodeCheck(c.Guest.Hardware)
		if err != nil {
			return refused(fault.InvalidRequest, "guest.hardware: %v", err)
		}
		check.Guest = *schedule.WithProviders(&check.Guest, s.Mappings)
		guest := *c.Guest
		guest.Hardware, n.Guest = check.Encode(), &guest
	}
	// A live claim is on another host, so what it gives back there makes no room here.
	if r := t.roomFor(h, &n); r != nil {
		return Outcome{Refusal: r}
	}
	if c.State.Live() {
		t.moveUsage(c.HostUUID, c, nil)
	}
	t.moveUsage(h.UUID, nil, &n)
	t.putClaim(&n)
	return Outcome{Claim: &n}
}

// MayCoexist reports whether one consumer may have both live claims (I2): one moves the other, the Placement API
// wrote one, or one is on a root without a compute service.
func MayCoexist(a, b *Claim) bool {
	return a.Moves == b.ClaimID || b.Moves == a.ClaimID || a.Allocated || b.Allocated || a.ServiceHost == "" || b.ServiceHost == ""
}

// inTheWayBack gives the live claim that keeps an expired one from coming back; nil for none. Every live claim does,
// except a single one that it moves or that moves it.
func (t *transaction) inTheWayBack(c *Claim) *Claim {
	ids := slices.DeleteFunc(slices.Clone(t.view.LiveByConsumer[c.ConsumerUUID]), func(id string) bool { return !t.isOnCompute(id) })
	if len(ids) == 1 {
		if o := t.view.Claims[ids[0]]; o.ClaimID == c.Moves || o.Moves == c.ClaimID {
			return nil
		}
	}
	return t.inTheWay(c.ConsumerUUID, "")
}

// transfer gives a claim to another consumer; see Transfer.
func (t *transaction) transfer(f *Transfer) Outcome {
	c := t.view.Claims[f.ClaimID]
	switch {
	case c == nil || c.ConsumerUUID != f.ConsumerUUID && c.ConsumerUUID != f.ToConsumer:
		return refused(fault.NotFound, "no claim %s of consumer %s", f.ClaimID, f.ConsumerUUID)
	case !c.State.Live():
		return refusedFor(c, fault.ClaimExpired, "claim %s has ended: %s", c.ClaimID, c.State)
	case c.ConsumerUUID == f.ToConsumer:
		return Outcome{Claim: c}
	}
	if other := t.inTheWay(f.ToConsumer, ""); other != nil {
		return hasClaim(f.ToConsumer, other)
	}
	n := *c
	n.ConsumerGeneration = t.consumerGeneration(f.ToConsumer) + 1
	n.ConsumerUUID, n.TransferredFrom, n.UpdatedAt = f.ToConsumer, c.Instance(), t.nextWriteTime(c)
	if n.TransferredFrom == n.ConsumerUUID {
		n.TransferredFrom = ""
	}
	t.putClaim(&n)
	return Outcome{Claim: &n}
}
