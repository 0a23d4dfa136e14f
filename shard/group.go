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

func (g *Group) same(o *Group) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.UUID == o.UUID && g.Policy == o.Policy && g.MaxPerHost == o.MaxPerHost && slices.Equal(g.Members, o.Members)
}

// groupRefusal says why the claim's group does not allow its host; nil when it does. Members are the instances of
// live claims in the group, and those that the group names. The claim's own instance is not one of them: it may move
// away from where the group is, as in Nova's late check (compute/manager.py, _validate_instance_group_policy). On a
// host where the instance already has a claim, anti-affinity does not refuse it (filters/affinity_filter.py).
func (t *transaction) groupRefusal(h *Host, c *Claim) *Refusal {
	if !c.Group.Hard() {
		return nil
	}
	members := slices.Clone(t.view.LiveByGroup[c.Group.UUID])
	for _, m := range c.Group.Members {
		members = append(members, t.claimsOfInstance(m, "")...)
	}
	slices.Sort(members)
	self := c.Instance()
	members = slices.DeleteFunc(slices.Compact(members), func(id string) bool { return t.view.Claims[id].Instance() == self })

	if c.Group.Policy == affinity {
		for _, id := range members {
			if m := t.view.Claims[id]; m.ServiceHost != h.ServiceHost {
				return &Refusal{
					Kind:    fault.NoValidHost,
					Message: fmt.Sprintf("group %s has consumer %s on host %s", c.Group.UUID, m.ConsumerUUID, m.ServiceHost),
					Filter:  "ServerGroupAffinityFilter", GroupHosts: t.hostsOf(members),
				}
			}
		}
		return nil
	}
	for _, id := range t.claimsOfInstance(self, h.UUID) {
		if t.view.Claims[id].HostUUID == h.UUID {
			return nil
		}
	}
	var on []string
	for _, id := range members {
		if m := t.view.Claims[id]; m.HostUUID == h.UUID && !slices.Contains(on, m.Instance()) {
			on = append(on, m.Instance())
		}
	}
	if here, limit := len(on), max(1, int(c.Group.MaxPerHost)); here >= limit {
		return &Refusal{
			Kind:    fault.NoValidHost,
			Message: fmt.Sprintf("group %s has %d of at most %d members on host %s", c.Group.UUID, here, limit, h.ServiceHost),
			Filter:  "ServerGroupAntiAffinityFilter", GroupHosts: []string{h.ServiceHost},
		}
	}
	return nil
}

// hostsOf gives the service hosts of claims, each once, by name.
func (t *transaction) hostsOf(claims []string) []string {
	hosts := make([]string, len(claims))
	for i, id := range claims {
		hosts[i] = t.view.Claims[id].ServiceHost
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// claimsOfInstance gives the live claims that hold an instance's resources: its own as a consumer, and those
// transferred from it. Claims on roots that are not known to be computes are left out, except those on host.
func (t *transaction) claimsOfInstance(instance, host string) []string {
	var ids []string
	for _, id := range t.view.LiveByConsumer[instance] {
		if t.view.Claims[id].TransferredFrom == "" {
			ids = append(ids, id)
		}
	}
	ids = append(ids, t.view.TransferredFrom[instance]...)
	return slices.DeleteFunc(ids, func(id string) bool { return !t.isOnCompute(id) && t.view.Claims[id].HostUUID != host })
}

// isOnCompute reports whether a claim is on a root that is known to have a compute service.
func (t *transaction) isOnCompute(claim string) bool { return t.view.Claims[claim].ServiceHost != "" }
