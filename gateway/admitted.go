package gateway

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
)

// errNotAdmitted is in the chain of the error of a cell that does not know this
// gateway, or not as one. The cell serves: it says no, and is asked again, so that it
// is used as soon as the credential is mended.
var errNotAdmitted = errors.New("not admitted")

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
		return fault.Wrap(fault.CellUnavailable, fmt.Errorf("%w: %w", errNotAdmitted, err), "cell %s does not admit this gateway", a.cell.cfg.Name)
	}
	return err
}
