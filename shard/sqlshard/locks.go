package sqlshard

import (
	"cmp"

	"cellgate/shard"
)

// unlocked finds rows that the operations depend on, but that are not named: the hosts of named claims, the groups of
// claims that may become live again, the claims on the hosts where claims take NUMA cells or devices, and the consumers
// of released claims that do not exist. The transaction then runs again with these names, so that it takes its locks in
// order.
func (s *Store) unlocked(p *picture, n *names) error {
	var hosts, hostClaims, consumers, groups []string
	for _, l := range n.landings {
		c := p.claims[l.ClaimID]
		if c == nil || !c.Guest.HasHardware() || !n.guarded[l.ClaimID] && c.State != shard.Expired {
			continue
		}
		if host := cmp.Or(l.HostUUID, c.HostUUID); !has(n.hostClaims, host) {
			hostClaims = append(hostClaims, host)
		}
	}
	for _, key := range n.claims {
		c := p.claims[idOf(key)]
		if c == nil {
			continue
		}
		if c.HostUUID != "" && !has(n.hosts, c.HostUUID) {
			hosts = append(hosts, c.HostUUID)
		}
		always, named := n.guarded[c.ClaimID]
		if !named || !always && c.State != shard.Expired || !c.Group.Hard() {
			continue
		}
		if !has(n.groups, c.Group.UUID) {
			groups = append(groups, c.Group.UUID)
		}
		for _, m := range append([]string{c.Instance()}, c.Group.Members...) {
			n.fill[m] = true
			if !has(n.consumers, m) {
				consumers = append(consumers, m)
			}
		}
	}
	for id, consumer := range n.released {
		if s.server.needsGuards() && p.claims[id] == nil && !has(n.consumers, consumer) {
			consumers = append(consumers, consumer)
		}
	}
	return s.restartWith(n, hosts, hostClaims, consumers, groups)
}

// checkLocks restarts the transaction if no locked row guards a changed row: the claim that a confirmed one moves may be
// on a host that is not named.
func (s *Store) checkLocks(p *picture, n *names, changes []shard.Change) error {
	var hosts []string
	locked := func(host string) {
		if host != "" && !has(n.hosts, host) {
			hosts = append(hosts, host)
		}
	}
	for _, ch := range changes {
		switch {
		case ch.Usage != nil:
			locked(ch.Usage.HostUUID)
		case ch.Claim != nil:
			locked(ch.Claim.HostUUID)
			if old := p.claims[ch.Claim.ClaimID]; old != nil {
				locked(old.HostUUID)
			}
		}
	}
	return s.restartWith(n, hosts, nil, nil, nil)
}

// restartWith restarts the transaction if there are more names.
func (s *Store) restartWith(n *names, hosts, hostClaims, consumers, groups []string) error {
	if len(hosts)+len(hostClaims)+len(consumers)+len(groups) == 0 || !n.widen(hosts, hostClaims, consumers, groups) {
		return nil
	}
	s.count.locked.Add(1)
	return restart("the operations need more locks than they name")
}
