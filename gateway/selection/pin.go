package selection

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// hardAffinity reports whether all members of the request's group must be on one host. It
// does not apply to forced hosts, as in Nova.
func hardAffinity(r *schedule.Request) bool {
	return r.Group != nil && r.Group.Policy == schedule.Affinity && !r.Forced()
}

// pinGroup pins the group to the host that all orders name, with one hold for each claim,
// before anything is claimed. Of two requests that place the first members of a group at
// once, in whatever cells, the arbiter lets only one choose. If the group is pinned to
// another host, pinGroup reports false: the request is narrowed to that host and must be
// planned again.
func (s *selection) pinGroup(ctx context.Context, orders []claimOrder) (bool, error) {
	group := s.request.Group.UUID.String()
	arbiter := s.svc.Claims.Arbiter(group)
	var ops []*cellv1.ClaimOp
	var holders []string
	for _, o := range orders {
		holders = append(holders, o.claim.GetClaimId())
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{
			GroupUuid: group, ServiceHost: o.host, ClaimId: o.claim.GetClaimId(), Ttl: durationpb.New(s.ttl + claims.PinMargin),
		}}})
	}
	asking, step := s.svc.Telemetry.Stage(ctx, telemetry.StagePin)
	step.Span.Text(telemetry.AttrCell, arbiter.Name())
	outcomes, _, err := arbiter.Operate(asking, cellclient.StepBudget(ctx, s.svc.Cells.ClaimBudget), ops)
	step.End(err)
	for _, out := range outcomes {
		if r := out.GetRefusal(); r != nil && out.GetPinnedServiceHost() == "" {
			err = cellclient.RefusalError(r.GetReason(), r.GetMessage())
		}
	}
	if err != nil {
		s.unpinLater(ctx, holders)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if e := cellclient.Overloaded([]error{err}, "server group %s is arbitrated by cell %s: %s", group, arbiter.Name(), cellclient.ReasonOf(err)); e != nil {
			return false, e.With("cells", arbiter.Name())
		}
		return false, fault.Wrap(fault.CellUnavailable, err, "server group %s is arbitrated by cell %s, which could not pin it: %s",
			group, arbiter.Name(), cellclient.ReasonOf(err)).With("cells", arbiter.Name())
	}
	for i, out := range outcomes {
		to := out.GetPinnedServiceHost()
		if to == orders[i].host {
			continue
		}
		s.unpinLater(ctx, holders)
		narrowed := *s.request
		narrowed.Group = new(*s.request.Group)
		narrowed.Group.Hosts = []string{to}
		s.request = &narrowed
		return false, nil
	}
	return true, nil
}

// unpinLater removes the claims' holds of the group's pin, in the background. A hold that
// remains ends by itself.
func (s *selection) unpinLater(ctx context.Context, holders []string) {
	if len(holders) == 0 {
		return
	}
	// The task outlives the request, so it must not use s.
	svc, group := s.svc, s.request.Group.UUID.String()
	svc.Cells.Background(ctx, func(ctx context.Context) { svc.Claims.Unpin(ctx, group, holders) })
}

// pinnedGroup gives the uuid of the group that the request pins; "" if it pins none.
func (s *selection) pinnedGroup() string {
	if !hardAffinity(s.request) {
		return ""
	}
	return s.request.Group.UUID.String()
}
