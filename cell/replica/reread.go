package replica

import (
	"cellgate/schedule"
	"cellgate/shard"
)

// HostReread are rows of a host as the shard has them, where the table has others. What has
// changed in the table since it was compared stays as it is.
type HostReread struct {
	Host string
	// Seen is the table's row when it was compared; nil for none. row takes the place of the
	// host's own, unless it is nil; usage of what is in use, nil for nothing, with usageToo.
	Seen     *HostRow
	Row      *shard.Host
	UsageToo bool
	Usage    *shard.Usage
	// Gone are claims of the table that the shard does not have; put are the shard's, with
	// the table's of that id beside each, nil for none.
	Gone []*shard.Claim
	Put  [][2]*shard.Claim
	// Since has the claims that ended since the shard was read: those are not put back.
	Since *EndsSeen
	// Did says that the table took something; read it once the rows are shown.
	Did bool
}

// Reread takes a host's rows in, whatever their age; the caller is the writer.
func (r *Rows) Reread(a *HostReread, d *dirty) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.hosts[a.Host]; (a.Row != nil || a.UsageToo) && old == a.Seen {
		r.replaceHost(old, a, d)
	}
	for _, c := range a.Gone {
		if r.claims[c.ClaimID] != c {
			continue
		}
		ended := *c
		ended.State = shard.Released
		r.setClaim(c, &ended, d)
		a.Did = true
	}
	for _, p := range a.Put {
		c, was := p[0], p[1]
		if r.claims[c.ClaimID] != was || was == nil && r.endedSinceLocked(c.ClaimID, a.Since) {
			continue
		}
		r.setClaim(was, c, d)
		d.instances[c.Instance()] = struct{}{}
		a.Did = true
	}
}

// replaceHost needs mu.
func (r *Rows) replaceHost(old *HostRow, a *HostReread, d *dirty) {
	var next HostRow
	if old != nil {
		next = *old
	} else {
		id, err := schedule.ParseID(a.Host)
		if err != nil {
			return // its own rows could not be read either, and that was told
		}
		next.id = id
	}
	if a.Row != nil {
		next.Host, next.Gone, next.Facts = a.Row, nil, r.readLocked(a.Row)
		d.registered[a.Host] = struct{}{}
	}
	if a.UsageToo {
		next.Usage = a.Usage
	}
	next.texts = schedule.NewNamespaces(next.FactTexts())
	r.put(a.Host, &next)
	d.hosts[a.Host] = true
	a.Did = true
}

// EndsSeen are the claims, live in the table or not, whose end came since it was made.
type EndsSeen struct{ ids map[string]struct{} }

// WatchEnds begins to note ends, for one at a time. A claim that the shard has after this
// call, and that ended since, is among them when the table has heard of its end.
func (r *Rows) WatchEnds() *EndsSeen {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = &EndsSeen{ids: map[string]struct{}{}}
	return r.ends
}

// UnwatchEnds ends it: from then on every claim may have ended.
func (r *Rows) UnwatchEnds(e *EndsSeen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == e {
		r.ends = nil
	}
}

// missedEnds says that claims may have ended of which nothing will come.
func (r *Rows) missedEnds() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = nil
}

// EndedSince reports whether a claim may have ended since e was made.
func (r *Rows) EndedSince(id string, e *EndsSeen) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.endedSinceLocked(id, e)
}

// endedSinceLocked needs mu.
func (r *Rows) endedSinceLocked(id string, e *EndsSeen) bool {
	if e == nil || r.ends != e {
		return true
	}
	_, ended := e.ids[id]
	return ended
}

// HostView is a host's rows at one moment, with what else there is of the instances on it.
type HostView struct {
	Row *HostRow
	// Claims are the live ones on the host, by claim_id.
	Claims []*shard.Claim
	// Of are all live claims that hold an instance's resources, for each instance of claims and
	// those asked for.
	Of map[string][]*shard.Claim
	// Consumers has, of instances asked for without one in of, a live claim of theirs that
	// holds what is another's.
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
