package cell

import (
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// shortOf gives at most limit of the hosts on whose root provider a claim for one of
// the amounts does not fit, with what is left of those classes. A disabled host, and
// one that an operator keeps instances from, has nothing left.
func (r *rows) shortOf(asked []*cellv1.Amount, limit int) (list []*cellv1.HostRoom) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for uuid, row := range r.hosts {
		if row.host == nil || len(row.host.Providers) == 0 {
			continue
		}
		var short []*cellv1.Room
		for _, a := range asked {
			if left := row.left(a.GetResourceClass()); left < int64(a.GetAmount()) {
				short = append(short, &cellv1.Room{ResourceClass: a.GetResourceClass(), Amount: left})
			}
		}
		if len(short) == 0 {
			continue
		}
		if list = append(list, &cellv1.HostRoom{HostUuid: uuid, Rooms: short}); len(list) == limit {
			break
		}
	}
	return list
}

// left is the greatest amount of a class that a claim on the root provider could have.
func (h *hostRow) left(class string) int64 {
	root := &h.host.Providers[0]
	for _, inv := range root.Inventories {
		if inv.ResourceClass == class && !h.host.Disabled && !h.admin.Withheld() {
			return min(inv.Free(h.usage.Of(root.UUID, class)), inv.MaxUnit)
		}
	}
	return 0
}
