package cell

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"cellgate/schedule"
	"cellgate/shard"
)

// assignedOf gives what claims take of a host's hardware.
func (r *rows) assignedOf(host string) (list []*schedule.Assignment) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, id := range slices.Sorted(maps.Keys(r.taking[host])) {
		if a := r.taking[host][id].Guest.Assigned; a != nil {
			list = append(list, a)
		}
	}
	return list
}

// gateRow gives the gate; nil for none.
func (r *rows) gateRow() *shard.Gate {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.gate
}

// awaitedClaims gives at most limit of the live claims that were not adopted and whose
// instance no report of their host has had since they are there, and whether there are
// more. One that was confirmed before a time, and has not changed since, is awaited no
// more.
func (r *rows) awaitedClaims(limit int, confirmed time.Time) (list []*shard.Claim, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.awaited {
		if c.State == shard.Confirmed && c.UpdatedAt.Before(confirmed) {
			delete(r.awaited, id)
			r.unseen[id] = c
			continue
		}
		if len(list) == limit {
			return list, true
		}
		list = append(list, c)
	}
	return list, false
}

// unseenClaims gives at most limit of the live claims whose instances no report of their
// host has had, long after they were confirmed; the longest first.
func (r *rows) unseenClaims(limit int) []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := slices.SortedFunc(maps.Values(r.unseen), func(a, b *shard.Claim) int {
		return cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), cmp.Compare(a.ClaimID, b.ClaimID))
	})
	return all[:min(len(all), limit)]
}

// awaitedCount counts them.
func (r *rows) awaitedCount() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.awaited)
}

// host gives the row of a host; nil when there is none.
func (r *rows) host(uuid string) *hostRow {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.hosts[uuid]
}

// shownHost is host, once the table shows what it gives.
func (r *rows) shownHost(uuid string) *hostRow {
	r.showing.RLock()
	defer r.showing.RUnlock()
	return r.host(uuid)
}

// serviceHost gives a host's service host, its uuid when that is not known.
func (r *rows) serviceHost(uuid string) string {
	if row := r.host(uuid); row != nil && row.host != nil {
		return row.host.ServiceHost
	}
	return uuid
}

// imported reports whether a host is Nova's tables' word, not an agent's, or was until
// they had it no more.
func (r *rows) imported(uuid string) bool {
	row := r.host(uuid)
	if row == nil {
		return false
	}
	h := row.row()
	return h != nil && h.Imported
}

// answeredFromTables reports whether the cell is under upgrade, and its gate not NATIVE:
// requests are answered from Nova's tables, whatever agents say.
func (r *rows) answeredFromTables() bool {
	g := r.gateRow()
	return g != nil && g.State != shard.GateNative
}

// claimsOfInstance gives the live claims that hold an instance's resources, by
// claim_id: one, two while it is moved, and others for the moment between two
// lanes' entries.
func (r *rows) claimsOfInstance(instance string) []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []*shard.Claim
	for _, c := range r.byConsumer[instance] {
		if c.TransferredFrom == "" {
			found = append(found, c)
		}
	}
	found = append(found, r.transferred[instance]...)
	if len(found) > 1 {
		slices.SortFunc(found, func(a, b *shard.Claim) int { return cmp.Compare(a.ClaimID, b.ClaimID) })
	}
	return found
}

// claimsOf gives the live claims of consumers, in the order of the consumers.
func (r *rows) claimsOf(consumers []string) []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []*shard.Claim
	for _, consumer := range consumers {
		found = append(found, r.byConsumer[consumer]...)
	}
	return found
}

// claimsOn gives the live claims on a host, by claim_id.
func (r *rows) claimsOn(host string) []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := slices.Collect(maps.Values(r.onHost[host]))
	slices.SortFunc(list, func(a, b *shard.Claim) int { return cmp.Compare(a.ClaimID, b.ClaimID) })
	return list
}

// endedState is the state of a claim that ended lately; empty when it is not known.
func (r *rows) endedState(id string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if c := cmp.Or(r.ended[id], r.endedBefore[id]); c != nil {
		return string(c.State)
	}
	return ""
}

// liveIDs gives the claim_ids of all live claims.
func (r *rows) liveIDs() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	ids := make([]string, 0, len(r.claims))
	for id := range r.claims {
		ids = append(ids, id)
	}
	return ids
}

// all gives every registered host's row, in no order, and the host set's number.
func (r *rows) all() ([]*hostRow, uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*hostRow, 0, len(r.hosts))
	for _, h := range r.hosts {
		if h.host != nil {
			out = append(out, h)
		}
	}
	return out, r.hostSet
}

// claim gives a live claim; nil when there is none of that id.
func (r *rows) claim(id string) *shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.claims[id]
}

// claimsHeldBy reports whether a consumer has a live claim, of whatever instance.
func (r *rows) claimsHeldBy(consumer string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return consumer != "" && len(r.byConsumer[consumer]) > 0
}

// anyHostOfAgent reports whether an agent has registered a host that the shard has.
func (r *rows) anyHostOfAgent() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, row := range r.hosts {
		if row != nil && row.host != nil && !row.host.Imported {
			return true
		}
	}
	return false
}

// claimed reports whether an instance has a live claim.
func (r *rows) claimed(instance string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, c := range r.byConsumer[instance] {
		if c.TransferredFrom == "" {
			return true
		}
	}
	return len(r.transferred[instance]) > 0
}

// each calls with each host's row, nil while there is none, and what stands beside it.
func (r *rows) each(visit func(uuid string, row *shard.Host, admin *shard.AdminState)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for uuid, row := range r.hosts {
		visit(uuid, row.host, row.admin)
	}
}
