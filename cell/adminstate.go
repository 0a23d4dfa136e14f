package cell

import (
	"context"
	"slices"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// adminStates are in the order of cellgatev1.HostAdmin_State.
var adminStates = []shard.Admin{"", shard.AdminEnabled, shard.AdminDisabled, shard.AdminMaintenance, shard.AdminForcedDown}

// SetAdminState writes what an operator wants of a host, through the lane. What it answers
// is in the table that this replica serves, and no claim that begins after it, at any
// replica, is made against it.
func (s *scheduler) SetAdminState(ctx context.Context, req *cellv1.SetAdminStateRequest) (*cellv1.SetAdminStateResponse, error) {
	if err := s.loaded(); err != nil {
		return nil, err
	}
	var r reader
	set := &shard.SetAdminState{
		HostUUID: r.UUID("host_uuid", req.GetHostUuid()), State: adminStates[req.GetState()], Reason: req.GetReason(), By: req.GetBy(),
		EndsNova: req.GetState() == cellgatev1.HostAdmin_ENABLED && !req.GetKeepNova(), AsOf: req.GetAsOfGeneration(),
	}
	if u := req.GetUntil(); u != nil {
		if u.CheckValid() != nil || u.AsTime().IsZero() {
			r.Problem("until", "must be a time")
		}
		set.Until = u.AsTime()
	}
	if l := req.GetLasts(); l != nil {
		if set.For = l.AsDuration(); l.CheckValid() != nil || set.For <= 0 {
			r.Problem("lasts", "must be above 0")
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	answers, err := s.pipeline.do(ctx, []shard.Op{{SetAdminState: set}}, false)
	if err == nil {
		err = answers[0].err
	}
	if err == nil && answers[0].outcome.Refusal != nil {
		err = refusedByField(&answers[0].outcome)
	}
	if err != nil {
		return nil, err
	}
	row := s.rows.host(set.HostUUID)
	switch {
	case row != nil && row.gone != nil:
		return nil, fault.New(fault.NotFound, "host %s is in Nova's tables no more", set.HostUUID)
	case row == nil || row.host == nil:
		return nil, fault.New(fault.CellUnavailable, "host %s is not in this replica's table yet", set.HostUUID)
	}
	told := []any{"host", row.host.ServiceHost, "host_uuid", set.HostUUID, "state", string(set.State), "reason", set.Reason, "who", orSomebody(set.By)}
	if row.admin != nil && !row.admin.Until.IsZero() {
		told = append(told, "until", row.admin.Until)
	}
	s.log.Info("audit: an operator's word about a host", told...)
	return &cellv1.SetAdminStateResponse{Host: s.hostMessage(row, req.GetDefaultAvailabilityZone())}, nil
}

// adminMessage is an operator's word as people see it; nil for none.
func adminMessage(a *shard.AdminState) *cellgatev1.HostAdmin {
	if a == nil || a.Since.IsZero() {
		return nil
	}
	return &cellgatev1.HostAdmin{
		State:  cellgatev1.HostAdmin_State(max(0, slices.Index(adminStates, a.State))),
		Reason: a.Reason, By: a.By, Since: timeOf(a.Since), Until: timeOf(a.Until), Generation: a.Generation, Nova: a.NovaWhy(),
	}
}

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
	if a.Nova != "" {
		r.byNova[a.HostUUID] = true
	} else {
		delete(r.byNova, a.HostUUID)
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

// maintenances writes the ends of maintenances until ctx ends. Several replicas may, as
// with leases.
func (k *keeper) maintenances(ctx context.Context) error {
	return k.repeat(ctx, k.every, "maintenances could not be ended", func(ctx context.Context) error {
		if !k.rows.mayEnd() {
			return nil
		}
		now, err := k.store.Now(ctx)
		if err != nil {
			return err
		}
		var ops []shard.Op
		for _, host := range k.rows.overdue(now, leaseLimit) {
			ops = append(ops, shard.Op{EndMaintenance: &shard.EndMaintenance{HostUUID: host}})
		}
		answers, err := k.do(ctx, ops, false)
		if err != nil {
			return err
		}
		for _, a := range answers {
			switch {
			case a.err != nil:
				return a.err
			case a.outcome.Refusal == nil && a.outcome.AdminState != nil:
				k.log.Info("audit: a maintenance is over", "host_uuid", a.outcome.AdminState.HostUUID, "reason", a.outcome.AdminState.Reason, "since", a.outcome.AdminState.Since)
			}
		}
		return nil
	})
}
