package shard

import (
	"fmt"
	"slices"

	"cellgate/internal/fault"
)

// The policies of server groups (nova/objects/instance_group.py, api schema
// server_groups.py).
const (
	affinity         = "affinity"
	antiAffinity     = "anti-affinity"
	softAffinity     = "soft-affinity"
	softAntiAffinity = "soft-anti-affinity"
)

// Hard reports whether a claim in the group may be refused for it.
func (g *Group) Hard() bool {
	return g != nil && (g.Policy == affinity || g.Policy == antiAffinity)
}

// groupRefusal says why the claim's group does not allow its host; nil when it
// does. Members are the live claims in the group, and the live claims of the
// consumers that the group names.
func (t *transaction) groupRefusal(h *Host, c *Claim) *Refusal {
	if !c.Group.Hard() {
		return nil
	}
	members := slices.Clone(t.view.LiveByGroup[c.Group.UUID])
	for _, m := range c.Group.Members {
		members = append(members, t.view.LiveByConsumer[m]...)
	}
	slices.Sort(members)
	members = slices.Compact(members)

	if c.Group.Policy == affinity {
		for _, id := range members {
			if m := t.view.Claims[id]; m.ServiceHost != h.ServiceHost {
				return &Refusal{
					Kind:    fault.NoValidHost,
					Message: fmt.Sprintf("group %s has consumer %s on host %s", c.Group.UUID, m.ConsumerUUID, m.ServiceHost),
					Filter:  "ServerGroupAffinityFilter",
				}
			}
		}
		return nil
	}
	here := 0
	for _, id := range members {
		if t.view.Claims[id].HostUUID == h.UUID {
			here++
		}
	}
	if limit := max(1, int(c.Group.MaxPerHost)); here >= limit {
		return &Refusal{
			Kind:    fault.NoValidHost,
			Message: fmt.Sprintf("group %s has %d of at most %d members on host %s", c.Group.UUID, here, limit, h.ServiceHost),
			Filter:  "ServerGroupAntiAffinityFilter",
		}
	}
	return nil
}
