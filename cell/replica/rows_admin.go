package replica

import (
	"slices"
	"time"

	"cellgate/shard"
)

// Conditions returns the conditions of a host in service; silent says that its agent is silent. An
// imported host is silent while the imports are stale, whatever silent is.
func (r *Rows) Conditions(row *HostRow, silent bool) shard.Conditions {
	all := row.Admin.Withholding()
	if row.Host.Imported {
		silent = r.importsStale.Load()
	}
	if silent {
		all = append(all, shard.Condition{Source: shard.SourceAgent, State: shard.ConditionSilent})
	}
	return all
}

func (r *Rows) applyAdminState(a *shard.AdminState, d *dirty) error {
	next, err := r.next(a.HostUUID)
	if err != nil || next.Admin != nil && a.Generation <= next.Admin.Generation {
		return err
	}
	next.Admin = a
	r.hosts[a.HostUUID] = &next
	d.hosts[a.HostUUID] = true
	return nil
}

// overdue returns, by uuid, at most limit hosts whose maintenance ended before now, in store time, and
// whose row does not show it yet.
func (r *Rows) overdue(now time.Time, limit int) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var list []string
	for host, row := range r.hosts {
		if a := row.Admin; a != nil && a.State == shard.ConditionMaintenance && !a.Until.IsZero() && !now.Before(a.Until) {
			list = append(list, host)
		}
	}
	slices.Sort(list)
	return list[:min(limit, len(list))]
}
