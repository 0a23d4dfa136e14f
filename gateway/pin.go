package gateway

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// pinMargin is how much longer a pin holds than the claim it belongs to: by then
// the claim's end shows in the cell's table.
const pinMargin = 10 * time.Second

// hardAffinity reports whether all members of the request's group must be on one
// host. Named hosts are not filtered, as in Nova.
func hardAffinity(r *schedule.Request) bool {
	return r.Group != nil && r.Group.Policy == schedule.Affinity && !r.Forced()
}

// arbiter gives the cell whose shard keeps the group's pin: the rendezvous
// choice of the enabled cells by name, the same on every gateway of one
// configuration. Nil when no cell is enabled.
func (g *Gateway) arbiter(group string) *cellclient.Cell {
	var enabled []*cellclient.Cell
	for _, c := range g.cells.All {
		if !c.Disabled() {
			enabled = append(enabled, c)
		}
	}
	return cellclient.Rendezvous(group, enabled)
}

// pinGroup pins the group to the host that all orders name, a hold for each
// claim, before anything is claimed: of two requests that place the first
// members of a group at once, in whatever cells, the arbiter lets one choose. It
// reports false when the group is pinned to another host: the request is then
// narrowed to that host and has to be planned again.
func (s *selection) pinGroup(ctx context.Context, orders []claimOrder) (bool, error) {
	group := s.request.Group.UUID.String()
	arbiter := s.g.arbiter(group)
	var ops []*cellv1.ClaimOp
	var holders []string
	for _, o := range orders {
		holders = append(holders, o.claim.GetClaimId())
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{
			GroupUuid: group, ServiceHost: o.host, ClaimId: o.claim.GetClaimId(), Ttl: durationpb.New(s.ttl + pinMargin),
		}}})
	}
	asking, step := s.g.tel.Stage(ctx, telemetry.StagePin)
	step.Span.Text(telemetry.AttrCell, arbiter.Name())
	outcomes, _, err := arbiter.Operate(asking, cellclient.StepBudget(ctx, s.g.cfg.ClaimBudget), ops)
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

// unpinLater takes claims' holds of the group's pin away, in the background: a
// hold that stays ends by itself.
func (s *selection) unpinLater(ctx context.Context, holders []string) {
	if len(holders) == 0 {
		return
	}
	// The task outlives the request, which s belongs to.
	g, group := s.g, s.request.Group.UUID.String()
	g.cells.Background(ctx, func(ctx context.Context) { g.unpin(ctx, group, holders) })
}

// pinnedGroup gives the group that the request pins; "" when it pins none.
func (s *selection) pinnedGroup() string {
	if !hardAffinity(s.request) {
		return ""
	}
	return s.request.Group.UUID.String()
}

// unpinIn takes holds away, if there are any; group is "" when none was pinned.
func (g *Gateway) unpinIn(ctx context.Context, group string, holders []string) {
	if group != "" && len(holders) > 0 {
		g.unpin(ctx, group, holders)
	}
}

// unpin takes holds away; it logs when it cannot.
func (g *Gateway) unpin(ctx context.Context, group string, holders []string) {
	arbiter := g.arbiter(group)
	if arbiter == nil {
		return
	}
	var ops []*cellv1.ClaimOp
	for _, id := range holders {
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Unpin{Unpin: &cellv1.GroupUnpin{GroupUuid: group, ClaimId: id}}})
	}
	if _, _, err := arbiter.Operate(ctx, g.cfg.ClaimBudget, ops); err != nil {
		g.log.WarnContext(ctx, "pin not taken away; it ends by itself", "cell", arbiter.Name(), "group", group, "error", err)
	}
}
