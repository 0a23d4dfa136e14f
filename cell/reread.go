package cell

import (
	"cellgate/schedule"
	"cellgate/shard"
)

// reread are rows of a host as the shard has them, where the table has others. What has
// changed in the table since it was compared stays as it is.
type reread struct {
	host string
	// seen is the table's row when it was compared; nil for none. row takes the place of the
	// host's own, unless it is nil; usage of what is in use, nil for nothing, with usageToo.
	seen     *hostRow
	row      *shard.Host
	usageToo bool
	usage    *shard.Usage
	// gone are claims of the table that the shard does not have; put are the shard's, with
	// the table's of that id beside each, nil for none.
	gone []*shard.Claim
	put  [][2]*shard.Claim
	// since has the claims that ended since the shard was read: those are not put back.
	since *endsSeen
	// did says that the table took something; read it once the rows are shown.
	did bool
}

// reread takes a host's rows in, whatever their age; the caller is the writer.
func (r *rows) reread(a *reread, d *dirty) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.hosts[a.host]; (a.row != nil || a.usageToo) && old == a.seen {
		r.replaceHost(old, a, d)
	}
	for _, c := range a.gone {
		if r.claims[c.ClaimID] != c {
			continue
		}
		ended := *c
		ended.State = shard.Released
		r.setClaim(c, &ended, d)
		a.did = true
	}
	for _, p := range a.put {
		c, was := p[0], p[1]
		if r.claims[c.ClaimID] != was || was == nil && r.endedSinceLocked(c.ClaimID, a.since) {
			continue
		}
		r.setClaim(was, c, d)
		d.instances[c.Instance()] = struct{}{}
		a.did = true
	}
}

// replaceHost needs mu.
func (r *rows) replaceHost(old *hostRow, a *reread, d *dirty) {
	var next hostRow
	if old != nil {
		next = *old
	} else {
		id, err := schedule.ParseID(a.host)
		if err != nil {
			return // its own rows could not be read either, and that was told
		}
		next.id = id
	}
	if a.row != nil {
		next.host, next.gone, next.facts = a.row, nil, r.readLocked(a.row)
		d.registered[a.host] = struct{}{}
	}
	if a.usageToo {
		next.usage = a.usage
	}
	next.said = schedule.NewNamespaces(next.factTexts())
	r.put(a.host, &next)
	d.hosts[a.host] = true
	a.did = true
}

// endsSeen are the claims, live in the table or not, whose end came since it was made.
type endsSeen struct{ ids map[string]struct{} }

// watchEnds begins to note ends, for one at a time. A claim that the shard has after this
// call, and that ended since, is among them when the table has heard of its end.
func (r *rows) watchEnds() *endsSeen {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = &endsSeen{ids: map[string]struct{}{}}
	return r.ends
}

// unwatchEnds ends it: from then on every claim may have ended.
func (r *rows) unwatchEnds(e *endsSeen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == e {
		r.ends = nil
	}
}

// missedEnds says that claims may have ended of which nothing will come.
func (r *rows) missedEnds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = nil
}

// endedSince reports whether a claim may have ended since e was made.
func (r *rows) endedSince(id string, e *endsSeen) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.endedSinceLocked(id, e)
}

// endedSinceLocked needs mu.
func (r *rows) endedSinceLocked(id string, e *endsSeen) bool {
	if e == nil || r.ends != e {
		return true
	}
	_, ended := e.ids[id]
	return ended
}

// view is a host's rows at one moment, with what else there is of the instances on it.
type view struct {
	row *hostRow
	// claims are the live ones on the host, by claim_id.
	claims []*shard.Claim
	// of are all live claims that hold an instance's resources, for each instance of claims and
	// those asked for.
	of map[string][]*shard.Claim
	// consumers has, of instances asked for without one in of, a live claim of theirs that
	// holds what is another's.
	consumers map[string]*shard.Claim
}

// viewOfHost reads a host's rows.
func (r *rows) viewOfHost(host string, instances []string) view {
	v := view{claims: r.claimsOn(host), of: map[string][]*shard.Claim{}, consumers: map[string]*shard.Claim{}}
	for _, c := range v.claims {
		if id := c.Instance(); v.of[id] == nil {
			v.of[id] = r.claimsOfInstance(id)
		}
	}
	for _, id := range instances {
		if v.of[id] != nil {
			continue
		}
		if v.of[id] = r.claimsOfInstance(id); len(v.of[id]) > 0 {
			continue
		}
		if theirs := r.claimsOf([]string{id}); len(theirs) > 0 {
			v.consumers[id] = theirs[0]
		}
	}
	v.row = r.host(host)
	return v
}
