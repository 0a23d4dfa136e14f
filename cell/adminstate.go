package cell

import (
	"context"
	"slices"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/shard"
)

// adminStates are in the order of cellgatev1.HostAdmin_State.
var adminStates = []shard.ConditionState{"", shard.ConditionEnabled, shard.ConditionDisabled, shard.ConditionMaintenance, shard.ConditionForcedDown}

// SetAdminState writes an operator's state of a host through the lane. When it returns, this replica's
// table shows the state, and no claim that begins later, at any replica, is made against it.
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
	if _, err := s.commit(ctx, shard.Op{SetAdminState: set}); err != nil {
		return nil, err
	}
	row := s.rows.Host(set.HostUUID)
	switch {
	case row != nil && row.Gone != nil:
		return nil, fault.New(fault.NotFound, "host %s is in Nova's tables no more", set.HostUUID)
	case row == nil || row.Host == nil:
		return nil, fault.New(fault.CellUnavailable, "host %s is not in this replica's table yet", set.HostUUID)
	}
	attrs := []any{"host", row.Host.ServiceHost, "host_uuid", set.HostUUID, "state", string(set.State), "reason", set.Reason, "who", orSomebody(set.By)}
	if row.Admin != nil && !row.Admin.Until.IsZero() {
		attrs = append(attrs, "until", row.Admin.Until)
	}
	s.log.Info("audit: an operator set a host's admin state", attrs...)
	return &cellv1.SetAdminStateResponse{Host: s.hostMessage(row, req.GetDefaultAvailabilityZone())}, nil
}

// adminMessage converts an operator's state of a host for the API; nil for none.
func adminMessage(a *shard.AdminState) *cellgatev1.HostAdmin {
	if a == nil || a.Since.IsZero() {
		return nil
	}
	return &cellgatev1.HostAdmin{
		State:  cellgatev1.HostAdmin_State(max(0, slices.Index(adminStates, a.State))),
		Reason: a.Reason, By: a.By, Since: timeOf(a.Since), Until: timeOf(a.Until), Generation: a.Generation, Nova: a.Conditions().From(shard.SourceNova).Text(),
	}
}
