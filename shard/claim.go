package shard

import (
	"cmp"
	"fmt"

	"cellgate/internal/fault"
)

// makeClaim claims resources. If the claim_id already exists, the answer is that claim unchanged. A consumer has at
// most one live claim, and one beside it that moves it (I2). A provider is never taken over capacity (I1). Hard group
// policies hold (I9).
func (t *transaction) makeClaim(n *NewClaim) Outcome {
	if c := t.view.Claims[n.ClaimID]; c != nil {
		return repeatClaim(c, n)
	}
	if other := t.inTheWay(n.ConsumerUUID, n.Moves); other != nil {
		return hasClaim(n.ConsumerUUID, other)
	}
	h, r := t.openHost(n.HostUUID)
	if r != nil {
		return Outcome{Refusal: r}
	}
	c := &Claim{
		ClaimID: n.ClaimID, ConsumerUUID: n.ConsumerUUID, State: Pending,
		HostUUID: n.HostUUID, ServiceHost: h.ServiceHost,
		Allocations: n.Allocations, Group: n.Group,
		ProjectID: n.ProjectID, UserID: n.UserID,
		RequestID: n.RequestID, Fingerprint: n.Fingerprint, DecisionID: n.DecisionID,
		InstanceIndex: n.InstanceIndex, Answer: n.Answer, Moves: n.Moves, MovesCell: n.MovesCell, Attempt: n.Attempt, Guest: n.Guest,
		ConsumerGeneration: t.consumerGeneration(n.ConsumerUUID) + 1, ForMigration: t.isMovedByNova(n.ConsumerUUID),
		TTL: n.TTL, ExpiresAt: t.now.Add(n.TTL), CreatedAt: t.now, UpdatedAt: t.now,
	}
	if r := t.roomFor(h, c); r != nil {
		return Outcome{Refusal: r}
	}
	t.moveUsage(c.HostUUID, nil, c)
	t.putClaim(c)
	return Outcome{Claim: c}
}

// inTheWay gives the live claim that keeps a consumer from a new one; nil for none. Every live claim does, except the
// one that the new claim moves, if it is the only one. Claims on roots without a compute service do not count.
func (t *transaction) inTheWay(consumer, moves string) *Claim {
	var first, other *Claim
	beside := false
	for _, id := range t.view.LiveByConsumer[consumer] {
		c := t.view.Claims[id]
		if !t.isOnCompute(id) {
			continue
		}
		if first == nil || t.comesFirst(c, first) {
			first = c
		}
		if id == moves {
			beside = true
		} else if other == nil || t.comesFirst(c, other) {
			other = c
		}
	}
	if beside {
		return other
	}
	return first
}

// comesFirst orders a consumer's live claims: those that move another of them come last, then by id.
func (t *transaction) comesFirst(a, b *Claim) bool {
	if x, y := t.movesAnother(a), t.movesAnother(b); x != y {
		return y
	}
	return a.ClaimID < b.ClaimID
}

// movesAnother reports whether a claim moves a live one of its consumer.
func (t *transaction) movesAnother(c *Claim) bool {
	from := t.view.Claims[c.Moves]
	return from != nil && from.State.Live() && from.ConsumerUUID == c.ConsumerUUID
}

// hasClaim refuses because of a live claim of the consumer.
func hasClaim(consumer string, c *Claim) Outcome {
	return refusedFor(c, fault.AlreadyExists, "consumer %s already has claim %s", consumer, c.ClaimID)
}

// openHost gives a host that accepts claims, or the reason why it does not.
func (t *transaction) openHost(uuid string) (*Host, *Refusal) {
	h := t.view.Hosts[uuid]
	if h == nil {
		return nil, &Refusal{Kind: fault.NotFound, Message: fmt.Sprintf("host_uuid: no host %s in this cell", uuid)}
	}
	why := ""
	if a := t.view.AdminStates[uuid]; h.ServiceHost == "" {
		why = "no compute service"
	} else if h.Disabled {
		why = "disabled"
	} else if a.Withholds(t.now) {
		why = a.Withholding().Text()
	}
	if why != "" {
		return nil, &Refusal{
			Kind: fault.NoValidHost, Message: fmt.Sprintf("host %s takes no new claims: %s", cmp.Or(h.ServiceHost, uuid), why),
			Filter: "ComputeFilter", Detail: why,
		}
	}
	return h, nil
}

func repeatClaim(c *Claim, n *NewClaim) Outcome {
	switch {
	case c.ConsumerUUID != n.ConsumerUUID:
		return refused(fault.InvalidRequest, "consumer_uuid: claim %s is of another consumer", c.ClaimID)
	case c.State == Rejected:
		return rejection(c)
	case !c.State.Live():
		return refusedFor(c, fault.ClaimExpired, "claim %s has ended: %s", c.ClaimID, c.State)
	case c.HostUUID != n.HostUUID:
		return refused(fault.InvalidRequest, "host_uuid: claim %s is on another host", c.ClaimID)
	case !sameAllocations(c.Allocations, n.Allocations):
		return refused(fault.InvalidRequest, "allocations: claim %s has others", c.ClaimID)
	case !c.Group.same(n.Group):
		return refused(fault.InvalidRequest, "group: claim %s has another", c.ClaimID)
	case c.Moves != n.Moves || c.MovesCell != n.MovesCell:
		return refused(fault.InvalidRequest, "moves_claim_id: claim %s moves another", c.ClaimID)
	}
	return Outcome{Claim: c}
}

// roomFor says why a host cannot hold a claim now; nil when it can. Then it has assigned NUMA cells and devices of
// the host to the claim.
func (t *transaction) roomFor(h *Host, c *Claim) *Refusal {
	if a, why := misfit(h, t.view.Usages[h.UUID], c.Allocations); why != "" {
		return &Refusal{
			Kind:    fault.NoValidHost,
			Message: fmt.Sprintf("%d %s on provider %s of host %s: %s", a.Amount, a.ResourceClass, a.ProviderUUID, h.ServiceHost, why),
			Filter:  "ResourceFilter",
			Detail:  a.ResourceClass,
		}
	}
	if r := t.groupRefusal(h, c); r != nil {
		return r
	}
	return t.assign(h, c)
}
