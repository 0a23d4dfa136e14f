package gateway

import (
	"context"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
)

// admitted is a connection to a replica whose cell is not available when it does
// not admit this gateway: the credential of the gateway's own caller is not what is
// wrong.
type admitted struct {
	grpc.ClientConnInterface
	cell *cell
}

func (a admitted) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	err := a.ClientConnInterface.Invoke(ctx, method, req, resp, opts...)
	switch fault.KindOf(err) {
	case fault.Unauthenticated, fault.PermissionDenied:
		return fault.Wrap(fault.CellUnavailable, err, "cell %s does not admit this gateway", a.cell.cfg.Name)
	}
	return err
}
