package claims

import (
	"context"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Release releases claims in one cell, and logs a failure at most every ten seconds. It gives
// the ids of the released claims. A claim that is confirmed, or belongs to another attempt,
// is no error if its ref names an attempt: the releasing attempt has nothing left there.
func (svc *Service) Release(ctx context.Context, c *cellclient.Cell, refs []*cellv1.ClaimRef) (gone []string, err error) {
	ctx, span := svc.Telemetry.Span(ctx, telemetry.SpanRelease)
	span.Text(telemetry.AttrCell, c.Name())
	span.Int(telemetry.AttrOps, len(refs))
	defer func() { span.End(err) }()
	var ops []*cellv1.ClaimOp
	for _, ref := range refs {
		ops = append(ops, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Release{Release: ref}})
	}
	var outcomes []*cellv1.ClaimOutcome
	outcomes, _, err = c.Operate(ctx, svc.Cells.ClaimBudget, ops)
	for i, o := range outcomes {
		r := o.GetRefusal()
		switch {
		case r == nil:
			gone = append(gone, refs[i].GetClaimId())
		case refs[i].GetAttempt() != "" && fault.Kind(r.GetReason()) == fault.AlreadyExists:
		case err == nil:
			err = cellclient.RefusalError(r.GetReason(), r.GetMessage())
		}
	}
	if err != nil {
		svc.unreleased.Warn(ctx, c.Name(), len(refs), "claims were not released; they end with their leases", "cell", c.Name(), "error", err)
	}
	return gone, err
}
