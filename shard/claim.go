package shard

import (
	"fmt"

	"cellgate/internal/fault"
)

// claim takes resources. The same claim_id again is answered with the claim as
// it is; a consumer has at most one live claim (I2); a provider is never taken
// over capacity (I1); hard group policies hold (I9).
func (t *transaction) claim(n *NewClaim) Outcome {
	if r := n.problem(); r != "" {
		return refused(fault.InvalidRequest, "%s", r)
	}
	if c := t.view.Claims[n.ClaimID]; c != nil {
		return again(c, n)
	}
	if ids := t.view.LiveByConsumer[n.ConsumerUUID]; len(ids) > 0 {
		o := refused(fault.AlreadyExists, "consumer %s already has claim %s", n.ConsumerUUID, ids[0])
		o.Claim = t.view.Claims[ids[0]]
		return o
	}
	h := t.view.Hosts[n.HostUUID]
	if h == nil {
		return refused(fault.NotFound, "host_uuid: no host %s in this cell", n.HostUUID)
	}
	if h.Disabled {
		o := refused(fault.NoValidHost, "host %s is disabled", h.ServiceHost)
		o.Refusal.Filter, o.Refusal.Detail = "ComputeFilter", "disabled"
		return o
	}
	c := &Claim{
		ClaimID: n.ClaimID, ConsumerUUID: n.ConsumerUUID, State: Pending,
		HostUUID: n.HostUUID, ServiceHost: h.ServiceHost,
		Allocations: n.Allocations, Group: n.Group,
		ProjectID: n.ProjectID, UserID: n.UserID,
		RequestID: n.RequestID, Fingerprint: n.Fingerprint, DecisionID: n.DecisionID,
		InstanceIndex: n.InstanceIndex, Answer: n.Answer,
		ExpiresAt: t.now.Add(n.TTL), CreatedAt: t.now, UpdatedAt: t.now,
	}
	if r := t.roomFor(h, c); r != nil {
		return Outcome{Refusal: r}
	}
	t.hold(c.HostUUID, nil, c)
	t.putClaim(c)
	return Outcome{Claim: c}
}

func again(c *Claim, n *NewClaim) Outcome {
	switch {
	case c.ConsumerUUID != n.ConsumerUUID:
		return refused(fault.InvalidRequest, "consumer_uuid: claim %s is of another consumer", c.ClaimID)
	case !c.State.Live():
		o := refused(fault.ClaimExpired, "claim %s has ended: %s", c.ClaimID, c.State)
		o.Claim = c
		return o
	case c.HostUUID != n.HostUUID:
		return refused(fault.InvalidRequest, "host_uuid: claim %s is on another host", c.ClaimID)
	}
	return Outcome{Claim: c}
}

// roomFor says why a host cannot take a claim now; nil when it can.
func (t *transaction) roomFor(h *Host, c *Claim) *Refusal {
	if a, why := misfit(h, t.view.Usages[h.UUID], c.Allocations); why != "" {
		return &Refusal{
			Kind:    fault.NoValidHost,
			Message: fmt.Sprintf("%d %s on provider %s of host %s: %s", a.Amount, a.ResourceClass, a.ProviderUUID, h.ServiceHost, why),
			Filter:  "ResourceFilter",
			Detail:  a.ResourceClass,
		}
	}
	return t.groupRefusal(h, c)
}
