package selection

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
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
// planned again. A pin is replaced once all claims that hold it have ended.
func (s *selection) pinGroup(ctx context.Context, orders []claimOrder) (bool, error) {
	arbiter := s.svc.Claims.Arbiter(s.request.Group.UUID.String())
	refused, err := s.pin(ctx, arbiter, orders, nil)
	if refused != nil && s.haveEnded(ctx, refused.GetPinHolders()) {
		refused, err = s.pin(ctx, arbiter, orders, refused.GetPinHolders())
	}
	if err == nil && refused == nil {
		return true, nil
	}
	var holders []string
	for _, o := range orders {
		holders = append(holders, o.claim.GetClaimId())
	}
	s.unpinLater(ctx, holders)
	if err != nil {
		return false, err
	}
	narrowed := *s.request
	narrowed.Group = new(*s.request.Group)
	narrowed.Group.Hosts = []string{refused.GetPinnedServiceHost()}
	s.request = &narrowed
	return false, nil
}

// pin asks the arbiter to pin the group, after it removes the holds of ended claims. refused is the outcome for the
// first order that names another host than the group is pinned to; nil for none.
func (s *selection) pin(ctx context.Context, arbiter *cellclient.Cell, orders []claimOrder, ended []string) (refused *cellv1.ClaimOutcome, err error) {
	group := s.request.Group.UUID.String()
	var ops []*cellv1.ClaimOp
	for _, id := range ended {
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Unpin{Unpin: &cellv1.GroupUnpin{GroupUuid: group, ClaimId: id}}})
	}
	for _, o := range orders {
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{
			GroupUuid: group, ServiceHost: o.host, ClaimId: o.claim.GetClaimId(), Ttl: durationpb.New(s.ttl + claims.PinMargin),
		}}})
	}
	asking, step := s.svc.Telemetry.Stage(ctx, telemetry.StagePin)
	step.Span.Text(telemetry.AttrCell, arbiter.Name())
	outcomes, _, err := arbiter.Operate(asking, cellclient.StepBudget(ctx, s.svc.Cells.ClaimBudget), ops)
	step.End(err)
	for i, out := range outcomes {
		switch r, to := out.GetRefusal(), out.GetPinnedServiceHost(); {
		case r != nil && to == "":
			err = cellclient.RefusalError(r.GetReason(), r.GetMessage())
		case i >= len(ended) && refused == nil && to != orders[i-len(ended)].host:
			refused = out
		}
	}
	if err == nil {
		return refused, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if e := cellclient.Overloaded([]error{err}, "server group %s is arbitrated by cell %s: %s", group, arbiter.Name(), cellclient.ReasonOf(err)); e != nil {
		return nil, e.With("cells", arbiter.Name())
	}
	return nil, fault.Wrap(fault.CellUnavailable, err, "server group %s is arbitrated by cell %s, which could not pin it: %s",
		group, arbiter.Name(), cellclient.ReasonOf(err)).With("cells", arbiter.Name())
}

// haveEnded reports whether all claims that hold a pin have ended. Nova ends claims without a gateway that would remove
// their holds. A claim that no cell has may still be made.
func (s *selection) haveEnded(ctx context.Context, holders []string) bool {
	ended := map[string]bool{}
	req := &cellv1.ListClaimsRequest{ClaimIds: holders}
	for _, r := range cellclient.AskAll(ctx, s.svc.Cells.All, func(ctx context.Context, c *cellclient.Cell) (*cellv1.ListClaimsResponse, error) {
		return cellclient.Call(ctx, c, cellclient.StepBudget(ctx, c.ProposeBudget()), req, cellv1.CellSchedulerClient.ListClaims)
	}) {
		for _, c := range r.Got.GetClaims() {
			ended[c.GetClaimId()] = c.GetState() != cellgatev1.ClaimState_PENDING && c.GetState() != cellgatev1.ClaimState_CONFIRMED
		}
	}
	return len(holders) > 0 && !slices.ContainsFunc(holders, func(id string) bool { return !ended[id] })
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
