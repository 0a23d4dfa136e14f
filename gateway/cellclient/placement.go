package cellclient

import (
	"context"
	"time"

	"google.golang.org/grpc"

	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// CallPlacement is Call for the cell's part of the Placement API.
func CallPlacement[Req, Resp any](ctx context.Context, c *Cell, budget time.Duration, req *Req,
	method func(cellv1.CellPlacementClient, context.Context, *Req, ...grpc.CallOption) (*Resp, error),
) (*Resp, error) {
	return callReplica(ctx, c, "", budget, req, func(ctx context.Context, r *Replica) (*Resp, error) { return method(r.placement, ctx, req) })
}
