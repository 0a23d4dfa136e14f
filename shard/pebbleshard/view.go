package pebbleshard

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/rowcodec"
)

// view reads the rows of a read set. The caller holds s.mu.
func (s *Store) view(f shard.ReadSet) (*shard.View, error) {
	v := shard.NewView(f)
	r := &viewReader{rows: s.rows, view: v}
	for _, id := range f.Hosts {
		r.host(id)
	}
	for _, id := range f.HostClaims {
		r.host(id)
		v.LiveByHost[id] = r.claims(s.rows.byHost.claims(id))
	}
	for _, id := range f.Aligned {
		for _, c := range v.LiveByHost[id] {
			if c := s.rows.claims[c]; c.GoesWithout(true) {
				r.transferred(c.ConsumerUUID)
			}
		}
	}
	for _, id := range f.Claims {
		if c := s.rows.claims[id]; c != nil {
			r.claim(c)
			continue
		}
		c, _, err := s.tombstone(id)
		if err != nil {
			return nil, err
		}
		if c != nil {
			r.claim(c)
		}
	}
	for _, l := range f.Landings {
		c := v.Claims[l.ClaimID]
		if c == nil {
			continue
		}
		if c.Group.Hard() {
			r.group(c.Group.UUID)
			r.consumer(c.Instance())
			for _, m := range c.Group.Members {
				r.consumer(m)
			}
		}
		if c.Guest.HasHardware() {
			host := cmp.Or(l.HostUUID, c.HostUUID)
			v.LiveByHost[host] = r.claims(s.rows.byHost.claims(host))
		}
	}
	for _, id := range f.Consumers {
		r.consumer(id)
	}
	for _, id := range f.Groups {
		r.group(id)
	}
	for _, id := range f.Pins {
		if p := s.rows.pins[id]; p != nil {
			v.Pins[id] = p
		}
	}
	for _, id := range f.Namespaces {
		if of := s.rows.namespaces[id]; len(of) > 0 {
			v.Namespaces[id] = maps.Clone(of)
		}
	}
	for _, n := range f.Names {
		if s.rows.names[n] {
			v.Names[n] = true
		}
	}
	if f.Gate {
		v.Gate = s.rows.gate
	}
	return v, nil
}

type viewReader struct {
	rows *cache
	view *shard.View
}

func (r *viewReader) host(id string) {
	if h := r.rows.hosts[id]; h != nil {
		r.view.Hosts[id] = h
	}
	if u := r.rows.usages[id]; u != nil {
		r.view.Usages[id] = u
	}
	if a := r.rows.admins[id]; a != nil {
		r.view.AdminStates[id] = a
	}
}

func (r *viewReader) claim(c *shard.Claim) {
	r.view.Claims[c.ClaimID] = c
	r.host(c.HostUUID)
}

// claims adds live claims to the view. It gives their ids in a list of its own, which Decide may change.
func (r *viewReader) claims(ids []string) []string {
	for _, id := range ids {
		r.claim(r.rows.claims[id])
	}
	return slices.Clone(ids)
}

func (r *viewReader) consumer(id string) {
	if list := r.rows.byConsumer[id]; len(list) > 0 {
		r.view.LiveByConsumer[id] = r.claims(list)
	}
	r.transferred(id)
}

func (r *viewReader) transferred(consumer string) {
	if list := r.rows.transferred[consumer]; len(list) > 0 {
		r.view.TransferredFrom[consumer] = r.claims(list)
	}
}

func (r *viewReader) group(id string) {
	if list := r.rows.byGroup[id]; len(list) > 0 {
		r.view.LiveByGroup[id] = r.claims(list)
	}
}

// tombstone reads an ended claim, and the size of its row; nil if it does not exist.
func (s *Store) tombstone(id string) (*shard.Claim, int, error) {
	b, closer, err := s.db.Get(nameKey(tombstoneKey, id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fault.Wrap(fault.CellUnavailable, err, "the shard cannot read claim %s", id)
	}
	c, err := rowcodec.Claim(b)
	if err != nil {
		err = fault.Wrap(fault.Internal, err, "the row of ended claim %s is not readable", id)
	}
	return c, len(b), errors.Join(err, closer.Close())
}
