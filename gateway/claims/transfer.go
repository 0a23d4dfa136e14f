package claims

import (
	"context"
	"fmt"
	"slices"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// Transfer gives a live claim to another consumer, in the cell that has it. A claim that
// already belongs to that consumer is not changed. The new consumer must have no other live
// claim in the cells that answer. Silent cells are ignored, as for a confirm (docs/adr/0005),
// unless the claim may be there.
func (svc *Service) Transfer(ctx context.Context, req *cellgatev1.TransferClaimRequest) (*cellgatev1.Claim, error) {
	from, to := cellclient.Canonical(req.GetConsumerUuid()), cellclient.Canonical(req.GetToConsumer())
	if from == to {
		return nil, fault.Invalid("to_consumer", "is the consumer that has the claim")
	}
	cells, err := svc.Cells.Selected(req.GetCell())
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, svc.Cells.ProposeBudget)
	defer cancel()
	replies := svc.Find(bounded, svc.Cells.All, from, to)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var in *cellclient.Cell
	for _, r := range replies {
		for _, c := range r.Got {
			switch {
			case c.GetClaimId() == req.GetClaimId() && c.GetConsumerUuid() == to:
				return c, nil
			case c.GetConsumerUuid() == to:
				return nil, fault.New(fault.AlreadyExists, "consumer %s has a claim already: %s in cell %s", to, c.GetClaimId(), r.Cell.Name()).
					With("consumer_uuid", to).With("claim_id", c.GetClaimId()).With("cell", r.Cell.Name())
			case c.GetClaimId() == req.GetClaimId():
				in = r.Cell
			}
		}
	}
	if in == nil || req.GetCell() != "" && in != cells[0] {
		replies = slices.DeleteFunc(replies, func(r cellclient.Reply[[]*cellgatev1.Claim]) bool { return !slices.Contains(cells, r.Cell) })
		return nil, cellclient.NotFound(replies, fmt.Sprintf("live claim %s of consumer %s", req.GetClaimId(), from))
	}
	out, err := in.ChangeClaim(ctx, svc.Cells.ClaimBudget, &cellv1.ClaimOp{Op: &cellv1.ClaimOp_Transfer{Transfer: &cellv1.TransferClaim{
		ClaimId: req.GetClaimId(), ConsumerUuid: from, ToConsumer: to,
	}}})
	return out.GetClaim(), err
}
