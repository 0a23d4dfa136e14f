package cellclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"google.golang.org/grpc"

	"cellgate/internal/fault"
)

// errNotAdmitted is in the chain of the error of a cell that does not know this gateway, or
// not with the role gateway. The refusal counts as an answer, so the cell is still asked, and
// is used as soon as the credential is mended.
var errNotAdmitted = errors.New("not admitted")

// admitted is a connection to a replica. If the replica does not admit this gateway, callers
// get CELL_UNAVAILABLE: their own credentials are not at fault. The first refusal, and the
// first success after it, are logged.
type admitted struct {
	grpc.ClientConnInterface
	cell    *Cell
	replica string
	log     *slog.Logger
	barred  atomic.Bool
}

func (a *admitted) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	err := a.ClientConnInterface.Invoke(ctx, method, req, resp, opts...)
	switch fault.KindOf(err) {
	case fault.Unauthenticated, fault.PermissionDenied:
		if a.barred.CompareAndSwap(false, true) {
			a.log.Warn("a cell does not admit this gateway: give gateway.cell_tls a certificate or a token with the role gateway that the cell's cell.tls knows",
				"cell", a.cell.Name(), "replica", a.replica, "err", err)
		}
		return fault.Wrap(fault.CellUnavailable, fmt.Errorf("%w: %w", errNotAdmitted, err), "cell %s does not admit this gateway", a.cell.Name())
	}
	if err == nil && a.barred.Load() && a.barred.CompareAndSwap(true, false) {
		a.log.Info("a cell admits this gateway again", "cell", a.cell.Name(), "replica", a.replica)
	}
	return err
}
