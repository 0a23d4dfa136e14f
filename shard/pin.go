package shard

import (
	"slices"

	"cellgate/internal/fault"
)

// pinGroup pins a group to a service host, unless a live hold pins it to another. A hold of the same claim is
// extended, never shortened.
func (t *transaction) pinGroup(n *NewPin) Outcome {
	old := t.view.Pins[n.GroupUUID]
	live := t.liveHolders(old)
	if len(live) > 0 && old.ServiceHost != n.ServiceHost {
		o := refused(fault.Contended, "group %s is pinned to host %s", n.GroupUUID, old.ServiceHost)
		o.PinnedTo = old.ServiceHost
		for _, h := range live {
			o.PinHolders = append(o.PinHolders, h.ClaimID)
		}
		return o
	}
	mine := Holder{ClaimID: n.ClaimID, ExpiresAt: t.now.Add(n.TTL)}
	if i := slices.IndexFunc(live, func(h Holder) bool { return h.ClaimID == n.ClaimID }); i < 0 {
		live = append(live, mine)
	} else if live[i].ExpiresAt.Before(mine.ExpiresAt) {
		live[i] = mine
	} else {
		return Outcome{PinnedTo: n.ServiceHost}
	}
	t.view.Pins[n.GroupUUID] = &Pin{GroupUUID: n.GroupUUID, ServiceHost: n.ServiceHost, Holders: live}
	t.touch(pinRow, n.GroupUUID)
	return Outcome{PinnedTo: n.ServiceHost}
}

// unpinGroup removes a claim's hold. The pin goes with its last live hold.
func (t *transaction) unpinGroup(n *Unpin) Outcome {
	old := t.view.Pins[n.GroupUUID]
	if old == nil || !slices.ContainsFunc(old.Holders, func(h Holder) bool { return h.ClaimID == n.ClaimID }) {
		return Outcome{}
	}
	live := slices.DeleteFunc(t.liveHolders(old), func(h Holder) bool { return h.ClaimID == n.ClaimID })
	if len(live) == 0 {
		delete(t.view.Pins, n.GroupUUID)
	} else {
		t.view.Pins[n.GroupUUID] = &Pin{GroupUUID: n.GroupUUID, ServiceHost: old.ServiceHost, Holders: live}
	}
	t.touch(pinRow, n.GroupUUID)
	return Outcome{}
}

// liveHolders gives a new list of the holds that have not ended.
func (t *transaction) liveHolders(p *Pin) []Holder {
	if p == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Holders), func(h Holder) bool { return !t.now.Before(h.ExpiresAt) })
}
