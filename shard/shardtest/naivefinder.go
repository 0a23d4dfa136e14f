package shardtest

import (
	"context"
	"slices"

	"cellgate/shard"
)

// NaiveFinder is a shard.HostFinder that loads every row.
type NaiveFinder struct{ Store shard.Store }

func (f NaiveFinder) FindHosts(ctx context.Context, q shard.HostQuery) (shard.HostMatches, error) {
	hosts, usages, claims := map[string]*shard.Host{}, map[string]*shard.Usage{}, map[string][]*shard.Claim{}
	namespaces, admins := map[string][]*shard.Namespace{}, map[string]*shard.AdminState{}
	var uuids []string
	_, err := f.Store.Load(ctx, func(c shard.Change) error {
		switch {
		case c.Host != nil:
			hosts[c.Host.UUID], uuids = c.Host, append(uuids, c.Host.UUID)
		case c.Usage != nil:
			usages[c.Usage.HostUUID] = c.Usage
		case c.Claim != nil:
			claims[c.Claim.HostUUID] = append(claims[c.Claim.HostUUID], c.Claim)
		case c.AdminState != nil:
			admins[c.AdminState.HostUUID] = c.AdminState
		case c.Namespace != nil:
			namespaces[c.Namespace.HostUUID] = append(namespaces[c.Namespace.HostUUID], c.Namespace)
		}
		return nil
	})
	m := shard.HostMatches{Hosts: len(hosts)}
	slices.Sort(uuids)
	if q.Limit > 0 {
		at, _ := slices.BinarySearch(uuids, q.From)
		uuids = slices.Concat(uuids[at:], uuids[:at])
	}
	for _, uuid := range uuids {
		switch {
		case admins[uuid].LeftOut():
		case !naivelyMatches(&q, hosts[uuid], usages[uuid]):
		case q.Limit > 0 && len(m.UUIDs) == q.Limit:
			m.More = true
		default:
			m.UUIDs = append(m.UUIDs, uuid)
		}
	}
	for _, uuid := range m.UUIDs {
		if !q.Rows {
			break
		}
		m.Rows = append(m.Rows, shard.Change{Host: hosts[uuid]})
		if usages[uuid] != nil {
			m.Rows = append(m.Rows, shard.Change{Usage: usages[uuid]})
		}
		for _, c := range claims[uuid] {
			m.Rows = append(m.Rows, shard.Change{Claim: c})
		}
		for _, n := range namespaces[uuid] {
			m.Rows = append(m.Rows, shard.Change{Namespace: n})
		}
	}
	return m, err
}

func naivelyMatches(q *shard.HostQuery, h *shard.Host, u *shard.Usage) bool {
	root := h.Providers[0]
	hasAny := func(have, want []string) bool {
		return slices.ContainsFunc(want, func(w string) bool { return slices.Contains(have, w) })
	}
	class := func(name string) func(shard.Inventory) bool {
		return func(i shard.Inventory) bool { return i.ResourceClass == name }
	}
	for _, a := range q.Resources {
		at := slices.IndexFunc(root.Inventories, class(a.ResourceClass))
		fits := false
		if at >= 0 {
			i := root.Inventories[at]
			fits = a.Amount >= i.MinUnit && a.Amount <= i.MaxUnit && a.Amount%i.StepSize == 0 && a.Amount <= i.Free(u.Of(root.UUID, a.ResourceClass))
		}
		child := slices.ContainsFunc(h.Providers[1:], func(p shard.Provider) bool { return slices.ContainsFunc(p.Inventories, class(a.ResourceClass)) })
		if !fits && !(a.OrChild && child) {
			return false
		}
	}
	var all, aggregates, zones []string
	for _, p := range h.Providers {
		all = append(all, p.Traits...)
	}
	zoned := false
	for _, a := range h.Aggregates {
		aggregates = append(aggregates, a.UUID)
		names, there := a.Zones()
		zoned, zones = zoned || there, append(zones, names...)
	}
	for _, t := range q.Somewhere {
		if !slices.Contains(all, t) {
			return false
		}
	}
	for _, t := range q.Required {
		if !slices.Contains(root.Traits, t) {
			return false
		}
	}
	for _, set := range q.AnyOf {
		if !hasAny(root.Traits, set) {
			return false
		}
	}
	for _, set := range q.MemberOf {
		if !hasAny(aggregates, set) {
			return false
		}
	}
	switch {
	case h.Disabled, hasAny(root.Traits, q.Forbidden), hasAny(aggregates, q.ForbiddenAggregates):
		return false
	case q.ServiceHost != "" && q.ServiceHost != h.ServiceHost, q.NodeName != "" && q.NodeName != h.NodeName:
		return false
	case q.Zone == "":
		return true
	case !zoned:
		return q.Unzoned
	}
	return slices.Contains(zones, q.Zone)
}
