package schedule

import "slices"

// PutConsumer puts an instance on a host, and takes it off all others. If the host does not exist, it reports false,
// and the instance stays where it is.
func (e *Edit) PutConsumer(host ID, c Consumer) bool {
	t, owner := e.t, e.t.version
	at, ok := t.slots.get(host)
	if !ok {
		return false
	}
	var of *details
	if c.Flavor != "" || c.Image != nil {
		of = &details{flavor: c.Flavor, image: c.Image}
	}
	was, known := t.consumers.get(c.Instance)
	if known && was.slot == at && was.group == c.Group && was.next == nil && was.details.equal(of) {
		return true
	}
	if known && was.slot == at && was.next == nil {
		e.count(was.group, at, -1)
	} else {
		e.RemoveConsumer(c.Instance)
		r, _ := e.ownRow(at)
		r.consumers = append(r.consumers, c.Instance)
	}
	t.consumers = t.consumers.set(c.Instance, place{slot: at, group: c.Group, details: of}, owner)
	e.count(c.Group, at, 1)
	return true
}

// AddConsumer puts an instance on a host besides its other hosts: a moving instance is on two. On a host that it is
// already on, its group is replaced. It reports false if the host does not exist.
func (e *Edit) AddConsumer(host ID, c Consumer) bool {
	t, owner := e.t, e.t.version
	at, ok := t.slots.get(host)
	if !ok {
		return false
	}
	first, known := t.consumers.get(c.Instance)
	if !known {
		return e.PutConsumer(host, c)
	}
	var places []place
	group, of := c.Group, first.details
	if c.Flavor != "" || c.Image != nil {
		of = &details{flavor: c.Flavor, image: c.Image}
	}
	for p := &first; p != nil; p = p.next {
		if p.slot != at {
			places = append(places, *p)
			continue
		}
		if group == (ID{}) {
			group = p.group
		}
		if group == p.group && p.details.equal(of) {
			return true
		}
		e.count(p.group, at, -1)
		places = append(places, place{slot: at, group: group, details: of})
		e.count(group, at, 1)
		at = none
	}
	if at != none {
		places = append(places, place{slot: at, group: group, details: of})
		e.count(group, at, 1)
		r, _ := e.ownRow(at)
		r.consumers = append(r.consumers, c.Instance)
	}
	t.consumers = t.consumers.set(c.Instance, linked(places), owner)
	return true
}

// none is the number of no slot.
const none = ^number(0)

// linked links places, at least one, in their order.
func linked(places []place) place {
	first := places[0]
	first.next = nil
	if len(places) > 1 {
		rest := linked(places[1:])
		first.next = &rest
	}
	return first
}

// RemoveConsumer removes an instance from all its hosts.
func (e *Edit) RemoveConsumer(instance ID) {
	t, owner := e.t, e.t.version
	first, ok := t.consumers.get(instance)
	if !ok {
		return
	}
	t.consumers = t.consumers.del(instance, owner)
	for p := &first; p != nil; p = p.next {
		e.leave(instance, p)
	}
}

// removeFrom removes an instance from one of its hosts.
func (e *Edit) removeFrom(at number, instance ID) {
	first, _ := e.t.consumers.get(instance)
	var kept []place
	for p := &first; p != nil; p = p.next {
		if p.slot == at {
			e.leave(instance, p)
		} else {
			kept = append(kept, *p)
		}
	}
	if len(kept) == 0 {
		e.t.consumers = e.t.consumers.del(instance, e.t.version)
		return
	}
	e.t.consumers = e.t.consumers.set(instance, linked(kept), e.t.version)
}

// leave removes an instance from a host's row and from the count of its group.
func (e *Edit) leave(instance ID, was *place) {
	e.count(was.group, was.slot, -1)
	r, _ := e.ownRow(was.slot)
	kept := make([]ID, 0, len(r.consumers)-1)
	for _, id := range r.consumers {
		if id != instance {
			kept = append(kept, id)
		}
	}
	r.consumers = slices.Clip(kept)
}

// count adds d to the number of a group's members on a slot.
func (e *Edit) count(group ID, at number, d int) {
	if group == (ID{}) {
		return
	}
	t, owner := e.t, e.t.version
	members, _ := t.groups.get(group)
	n, _ := members.get(at)
	if n += d; n == 0 {
		members = members.del(at, owner)
	} else {
		members = members.set(at, n, owner)
	}
	if members.n == 0 {
		t.groups = t.groups.del(group, owner)
		return
	}
	t.groups = t.groups.set(group, members, owner)
}
