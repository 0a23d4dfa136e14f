package schedule

import "slices"

// PutConsumer puts an instance on a host, from wherever it was. It reports false
// when there is no such host; the instance then stays where it was.
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

// AddConsumer puts an instance on a host besides those it is on: one that is being
// moved is on two at once. On a host that it is on already it stays once, in the
// group that was named last. It reports false when there is no such host.
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

// none is no slot.
const none = ^number(0)

// linked makes one value of places, in their order; there is at least one.
func linked(places []place) place {
	first := places[0]
	first.next = nil
	if len(places) > 1 {
		rest := linked(places[1:])
		first.next = &rest
	}
	return first
}

// RemoveConsumer takes an instance off the hosts it is on, if any.
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

// removeFrom takes an instance off one of its hosts.
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

// leave takes an instance out of a host's row and its group's count.
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

// count adds to a group's members on a slot.
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
