package cell

import (
	"slices"
	"time"

	"cellgate/schedule"
	"cellgate/shard"
)

// down reports whether a host counts as down; silent: its agent was not heard of in time.
func (r *rows) down(row *hostRow, silent bool) bool {
	if row.host.Imported {
		silent = r.stale.Load()
	}
	return silent || row.admin.Down()
}

func (r *rows) applyAdminState(a *shard.AdminState, d *dirty) error {
	next := hostRow{}
	if old := r.hosts[a.HostUUID]; old != nil {
		if old.admin != nil && a.Generation <= old.admin.Generation {
			return nil
		}
		next = *old
	} else {
		id, err := schedule.ParseID(a.HostUUID)
		if err != nil {
			return err
		}
		next.id = id
	}
	next.admin = a
	r.hosts[a.HostUUID] = &next
	d.hosts[a.HostUUID] = true
	if a.State == shard.AdminMaintenance && !a.Until.IsZero() {
		r.ending[a.HostUUID] = a.Until
	} else {
		delete(r.ending, a.HostUUID)
	}
	return nil
}

// mayEnd reports whether some maintenance has an end.
func (r *rows) mayEnd() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.ending) > 0
}

// overdue gives at most limit of the hosts whose maintenance is over at a moment of store
// time and whose row does not say so yet, by uuid.
func (r *rows) overdue(now time.Time, limit int) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var list []string
	for host, until := range r.ending {
		if !now.Before(until) {
			list = append(list, host)
		}
	}
	slices.Sort(list)
	return list[:min(limit, len(list))]
}
