package claims

import (
	"context"
	"slices"
	"time"

	"cellgate/gateway/cellclient"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// PinMargin is how much longer a pin holds than the claim it belongs to: by then
// the claim's end shows in the cell's table.
const PinMargin = 10 * time.Second

// Arbiter gives the cell whose shard keeps the group's pin: the rendezvous
// choice of the enabled cells by name, the same on every gateway of one
// configuration. Nil when no cell is enabled.
func (svc *Service) Arbiter(group string) *cellclient.Cell {
	return cellclient.Rendezvous(group, slices.DeleteFunc(slices.Clone(svc.cells.All), (*cellclient.Cell).Disabled))
}

// UnpinIn takes holds away, if there are any; group is "" when none was pinned.
func (svc *Service) UnpinIn(ctx context.Context, group string, holders []string) {
	if group != "" && len(holders) > 0 {
		svc.Unpin(ctx, group, holders)
	}
}

// Unpin takes holds away; it logs when it cannot.
func (svc *Service) Unpin(ctx context.Context, group string, holders []string) {
	arbiter := svc.Arbiter(group)
	if arbiter == nil {
		return
	}
	var ops []*cellv1.ClaimOp
	for _, id := range holders {
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Unpin{Unpin: &cellv1.GroupUnpin{GroupUuid: group, ClaimId: id}}})
	}
	if _, _, err := arbiter.Operate(ctx, svc.cfg.ClaimBudget, ops); err != nil {
		svc.log.WarnContext(ctx, "pin not taken away; it ends by itself", "cell", arbiter.Name(), "group", group, "error", err)
	}
}
