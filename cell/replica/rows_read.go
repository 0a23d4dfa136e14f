package replica

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"cellgate/schedule/hardware"
	"cellgate/shard"
)

// assignedOf returns the hardware assignments of the claims on a host.
func (r *Rows) assignedOf(host string) (list []*hardware.Assignment) {
	for _, c := range r.HardwareClaims(host) {
		list = append(list, c.Guest.Assigned)
	}
	return list
}

// HardwareClaims returns, by id, the claims with assigned hardware of a host that no report of the host
// includes yet.
func (r *Rows) HardwareClaims(host string) (list []*shard.Claim) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, c := range r.onHost[host] {
		if c.TakesHardware() && c.Guest.Assigned != nil {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, byClaimID)
	return list
}

func byClaimID(a, b *shard.Claim) int { return cmp.Compare(a.ClaimID, b.ClaimID) }

// GateRow gives the gate; nil for none.
func (r *Rows) GateRow() *shard.Gate {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.gate
}

// Host gives the row of a host; nil when there is none.
func (r *Rows) Host(uuid string) *HostRow {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.hosts[uuid]
}

// PublishedHost is Host, but waits until the table shows the row.
func (r *Rows) PublishedHost(uuid string) *HostRow {
	r.publishing.RLock()
	defer r.publishing.RUnlock()
	return r.Host(uuid)
}

// ServiceHost returns a host's service host, or its uuid if that is unknown.
func (r *Rows) ServiceHost(uuid string) string {
	if row := r.Host(uuid); row != nil && row.Host != nil {
		return row.Host.ServiceHost
	}
	return uuid
}

// Imported reports whether a host was imported from Nova's tables, even if they no longer have it.
func (r *Rows) Imported(uuid string) bool {
	row := r.Host(uuid)
	if row == nil {
		return false
	}
	h := row.Row()
	return h != nil && h.Imported
}

// AnsweredFromTables reports whether the cell is under upgrade and its gate is not NATIVE: requests are
// answered from Nova's tables, whatever agents report.
func (r *Rows) AnsweredFromTables() bool {
	g := r.GateRow()
	return g != nil && g.State != shard.GateNative
}

// ClaimsOfInstance returns the live claims that hold an instance's resources, by claim_id: one, or two
// while the instance is moved. Between the entries of two lanes there may briefly be more.
func (r *Rows) ClaimsOfInstance(instance string) []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []*shard.Claim
	for _, c := range r.byConsumer[instance] {
		if c.TransferredFrom == "" {
			found = append(found, c)
		}
	}
	found = append(found, r.transferred[instance]...)
	slices.SortFunc(found, byClaimID)
	return found
}

// ClaimsOfConsumers gives the live claims of consumers, in the order of the consumers.
func (r *Rows) ClaimsOfConsumers(consumers []string) []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var found []*shard.Claim
	for _, consumer := range consumers {
		found = append(found, r.byConsumer[consumer]...)
	}
	return found
}

// ClaimsOn gives the live claims on a host, by claim_id.
func (r *Rows) ClaimsOn(host string) []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := slices.Collect(maps.Values(r.onHost[host]))
	slices.SortFunc(list, byClaimID)
	return list
}

// EndedState is the state of a claim that ended recently; "" if unknown.
func (r *Rows) EndedState(id string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if c := cmp.Or(r.ended[id], r.endedBefore[id]); c != nil {
		return string(c.State)
	}
	return ""
}

// LiveClaims gives all live claims, in no order.
func (r *Rows) LiveClaims() []*shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.claims))
}

// HostsInService gives every registered host's row, in no order.
func (r *Rows) HostsInService() []*HostRow {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*HostRow, 0, len(r.hosts))
	for _, h := range r.hosts {
		if h.Host != nil {
			out = append(out, h)
		}
	}
	return out
}

// Claim gives a live claim; nil when there is none of that id.
func (r *Rows) Claim(id string) *shard.Claim {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.claims[id]
}

// SomeClaims yields at most most live claims. If there are more, each call yields another sample. The
// writer waits meanwhile.
func (r *Rows) SomeClaims(most int) iter.Seq[*shard.Claim] {
	return func(yield func(*shard.Claim) bool) {
		r.mu.RLock()
		defer r.mu.RUnlock()
		n := 0
		for _, claim := range r.claims { // Go iterates over a map in random order
			if n++; n > most || !yield(claim) {
				return
			}
		}
	}
}

// Each calls visit with each host's row, nil while there is none, and the host's conditions.
func (r *Rows) Each(visit func(uuid string, row *shard.Host, admin *shard.AdminState)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for uuid, row := range r.hosts {
		visit(uuid, row.Host, row.Admin)
	}
}

// HostView is a host's rows at one moment, with the other claims of its instances.
type HostView struct {
	Row *HostRow
	// Claims are the live ones on the host, by claim_id.
	Claims []*shard.Claim
	// Of are all live claims that hold an instance's resources, for the instances of Claims and the
	// requested ones.
	Of map[string][]*shard.Claim
	// Consumers has, for each requested instance without a claim in Of, a live claim of that consumer
	// that holds another instance's resources.
	Consumers map[string]*shard.Claim
}

// ViewOfHost reads a host's rows.
func (r *Rows) ViewOfHost(host string, instances []string) HostView {
	v := HostView{Claims: r.ClaimsOn(host), Of: map[string][]*shard.Claim{}, Consumers: map[string]*shard.Claim{}}
	for _, c := range v.Claims {
		if id := c.Instance(); v.Of[id] == nil {
			v.Of[id] = r.ClaimsOfInstance(id)
		}
	}
	for _, id := range instances {
		if v.Of[id] != nil {
			continue
		}
		if v.Of[id] = r.ClaimsOfInstance(id); len(v.Of[id]) > 0 {
			continue
		}
		if theirs := r.ClaimsOfConsumers([]string{id}); len(theirs) > 0 {
			v.Consumers[id] = theirs[0]
		}
	}
	v.Row = r.Host(host)
	return v
}
