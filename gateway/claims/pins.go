package claims

import (
	"context"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

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
