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
	was, known := t.consumers.get(c.Instance)
	if known && was.slot == at && was.group == c.Group {
		return true
	}
	if known && was.slot == at {
		e.count(was.group, at, -1)
	} else {
		e.RemoveConsumer(c.Instance)
		r, _ := e.ownRow(at)
		r.consumers = append(r.consumers, c.Instance)
	}
	t.consumers = t.consumers.set(c.Instance, place{slot: at, group: c.Group}, owner)
	e.count(c.Group, at, 1)
	return true
}

// RemoveConsumer takes an instance off its host, if it is on one.
func (e *Edit) RemoveConsumer(instance ID) {
	t, owner := e.t, e.t.version
	was, ok := t.consumers.get(instance)
	if !ok {
		return
	}
	t.consumers = t.consumers.del(instance, owner)
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
