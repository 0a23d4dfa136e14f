package cell

import (
	"cellgate/schedule"
	"cellgate/shard"
)

// reread is a host's rows as the shard has them, where the table has others. What has
// changed in the table since it was compared stays as it is.
type reread struct {
	host string
	// seen is the table's row when it was compared; nil for none.
	seen *hostRow
	// row and usage take its place, unless whole is false.
	whole bool
	row   *shard.Host
	usage *shard.Usage
	// gone are claims of the table that the shard does not have; put are the shard's, with
	// the table's of that id beside each, nil for none.
	gone []*shard.Claim
	put  [][2]*shard.Claim
}

// reread takes a host's rows in, whatever their age; the caller is the writer.
func (r *rows) reread(a *reread, d *dirty) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.hosts[a.host]; a.whole && old == a.seen && a.row != nil {
		r.replaceHost(old, a, d)
	}
	for _, c := range a.gone {
		if r.claims[c.ClaimID] != c {
			continue
		}
		ended := *c
		ended.State = shard.Released
		r.setClaim(c, &ended, d)
	}
	for _, p := range a.put {
		if c, was := p[0], p[1]; r.claims[c.ClaimID] == was {
			delete(r.ended, c.ClaimID)
			delete(r.endedBefore, c.ClaimID)
			r.setClaim(was, c, d)
			d.instances[c.Instance()] = struct{}{}
		}
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
	next.host, next.gone, next.usage = a.row, nil, a.usage
	next.said = schedule.NewNamespaces(next.factTexts())
	r.put(a.host, &next)
	d.hosts[a.host] = true
	d.registered[a.host] = struct{}{}
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
