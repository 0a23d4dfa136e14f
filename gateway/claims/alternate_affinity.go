package claims

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// boundByAffinity reports whether the claim's server group has hard affinity, so that its members share one host.
func boundByAffinity(h claimIn) bool {
	return h.claim.GetGroupUuid() != "" && h.origin.GetGroupPolicy() == string(schedule.Affinity)
}

// moveAffinity allows a claim of a hard-affinity group to go to another service host only if
// it is the group's only member. It first moves the claim's hold of the group's pin, which
// fails while another claim holds the pin. It then searches for members whose pins have
// ended. undo puts the hold back; it is nil with an error.
func (svc *Service) moveAffinity(ctx context.Context, h claimIn, to string, ttl time.Duration) (undo func(), err error) {
	group, id, old := h.claim.GetGroupUuid(), h.claim.GetClaimId(), h.claim.GetServiceHost()
	if to == old {
		return func() {}, nil
	}
	refused := func(host string) error {
		return fault.New(fault.NoValidHost, "server group %s has affinity and is on host %s: its member cannot go to %s alone", group, host, to).
			With("claim_id", id).With("cell", h.in.Name())
	}
	arbiter := svc.Arbiter(group)
	if arbiter == nil {
		return nil, fault.New(fault.CellUnavailable, "server group %s has no arbiter: no cell is enabled", group)
	}
	back := func() {
		svc.Cells.Background(ctx, func(ctx context.Context) { svc.movePin(ctx, arbiter, group, id, old, ttl) })
	}
	pinned, err := svc.movePin(ctx, arbiter, group, id, to, ttl)
	switch {
	case err != nil:
		back()
		return nil, err
	case pinned != to:
		back()
		return nil, refused(pinned)
	}
	others, err := svc.otherMembers(ctx, h)
	if i := slices.IndexFunc(others, func(host string) bool { return host != to }); i >= 0 {
		back()
		return nil, refused(others[i])
	}
	if err != nil {
		back()
		return nil, err
	}
	return back, nil
}

// movePin moves a claim's hold of its group's pin to another service host. It gives the host
// that the group is pinned to afterwards, which may be another claim's.
func (svc *Service) movePin(ctx context.Context, arbiter *cellclient.Cell, group, claim, to string, ttl time.Duration) (string, error) {
	outcomes, _, err := arbiter.Operate(ctx, svc.Cells.ClaimBudget, []*cellv1.ClaimOp{
		{Op: &cellv1.ClaimOp_Unpin{Unpin: &cellv1.GroupUnpin{GroupUuid: group, ClaimId: claim}}},
		{Op: &cellv1.ClaimOp_Pin{Pin: &cellv1.GroupPin{GroupUuid: group, ServiceHost: to, ClaimId: claim, Ttl: durationpb.New(ttl + PinMargin)}}},
	})
	if err == nil && outcomes[1].GetPinnedServiceHost() == "" {
		r := outcomes[1].GetRefusal()
		err = cellclient.RefusalError(r.GetReason(), r.GetMessage())
	}
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fault.Wrap(fault.CellUnavailable, err, "server group %s is arbitrated by cell %s, which could not pin it: %s",
			group, arbiter.Name(), cellclient.ReasonOf(err)).With("cells", arbiter.Name())
	}
	return outcomes[1].GetPinnedServiceHost(), nil
}

// otherMembers gives the service hosts with members of a claim's group besides the
// claim's own instance, in all enabled cells. The error says that members may be
// in cells that do not answer.
func (svc *Service) otherMembers(ctx context.Context, h claimIn) ([]string, error) {
	group, err := schedule.ParseID(h.claim.GetGroupUuid())
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "claim %s has a group without a uuid", h.claim.GetClaimId())
	}
	request := &schedule.Request{Group: &schedule.Group{UUID: group, Policy: schedule.Affinity}}
	query := &cellv1.Query{Placement: wire.EncodePlacement(request, svc.Rules), Limit: 1}
	var hosts []string
	var missing cellclient.Missing
	enabled := slices.DeleteFunc(slices.Clone(svc.Cells.All), (*cellclient.Cell).Disabled)
	for _, r := range cellclient.AskAll(ctx, enabled, func(ctx context.Context, c *cellclient.Cell) (*cellv1.Proposal, error) {
		p, _, err := c.Propose(ctx, cellclient.StepBudget(ctx, c.ProposeBudget()), query, nil)
		return p, err
	}) {
		if r.Err != nil {
			missing.Add(r.Cell, r.Err)
		}
		for _, m := range r.Got.GetGroupHosts() {
			members := m.GetMembers()
			if r.Cell == h.in && m.GetHostUuid() == h.claim.GetHostUuid() {
				members--
			}
			if members > 0 {
				hosts = append(hosts, m.GetServiceHost())
			}
		}
	}
	slices.Sort(hosts)
	if ctx.Err() != nil {
		return hosts, ctx.Err()
	}
	if missing.Len() > 0 {
		return hosts, missing.Fault("members of server group %s may be in cells that do not answer", h.claim.GetGroupUuid())
	}
	return hosts, nil
}

// PinMargin is how much longer a pin lasts than its claim's lease: by then the claim's end
// shows in the cell's table.
const PinMargin = 10 * time.Second

// Arbiter gives the cell whose shard keeps the group's pin: the rendezvous choice among the
// enabled cells by name, the same on every gateway of one configuration. It is nil if no cell
// is enabled.
func (svc *Service) Arbiter(group string) *cellclient.Cell {
	return cellclient.Rendezvous(group, slices.DeleteFunc(slices.Clone(svc.Cells.All), (*cellclient.Cell).Disabled))
}

// UnpinIn removes the holds of holders on a group's pin; it does nothing without a group or holders.
func (svc *Service) UnpinIn(ctx context.Context, group string, holders []string) {
	if group != "" && len(holders) > 0 {
		svc.Unpin(ctx, group, holders)
	}
}

// Unpin removes the holds of claims on a group's pin; it logs a failure.
func (svc *Service) Unpin(ctx context.Context, group string, holders []string) {
	arbiter := svc.Arbiter(group)
	if arbiter == nil {
		return
	}
	var ops []*cellv1.ClaimOp
	for _, id := range holders {
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Unpin{Unpin: &cellv1.GroupUnpin{GroupUuid: group, ClaimId: id}}})
	}
	if _, _, err := arbiter.Operate(ctx, svc.Cells.ClaimBudget, ops); err != nil {
		svc.Log.WarnContext(ctx, "pin not taken away; it ends by itself", "cell", arbiter.Name(), "group", group, "error", err)
	}
}
