package selection

import (
	"context"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// logReject logs hosts that a filter cannot read, for which Nova would raise an exception. The log is throttled; the
// metric counts all of them.
func (svc *Service) logReject(ctx context.Context, cell string, r *cellgatev1.RejectCount) {
	svc.unreadable.Warn(ctx, cell+" "+r.GetFilter(), int(r.GetHosts()), "hosts are left out: a filter cannot read them, and Nova would fail the request",
		"cell", cell, "filter", r.GetFilter(), "hosts", r.GetHosts(), "host", r.GetExample(), "class", r.GetExceptionClass(), "message", r.GetExceptionMessage())
}

// logWarning logs hosts that pass although some of their data cannot be read; a default counts instead.
func (svc *Service) logWarning(ctx context.Context, cell string, w *cellgatev1.WarningCount) {
	key, hosts := cell+" "+w.GetKey(), int(w.GetHosts())
	if w.GetExceptionClass() == "" {
		svc.unreadable.Warn(ctx, key, hosts, "hosts have a value that cannot be read; a default replaces it", "cell", cell,
			"key", w.GetKey(), "hosts", hosts, "host", w.GetExample())
		return
	}
	svc.unreadable.Warn(ctx, key, hosts, "hosts are weighed by a default: a weigher cannot read them, and Nova fails requests that weigh them", "cell", cell,
		"weigher", w.GetKey(), "hosts", hosts, "host", w.GetExample(), "class", w.GetExceptionClass(), "message", w.GetExceptionMessage())
}
