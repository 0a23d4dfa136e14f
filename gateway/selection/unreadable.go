package selection

import (
	"context"
	"log/slog"
	"sync"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// sayAgain is how long no line is written of hosts that the same filter or weigher cannot
// read in the same cell. The metric counts all of them.
const sayAgain = time.Minute

// unreadables writes of hosts that say what a filter or weigher cannot read: Nova would
// raise an exception for most of them.
type unreadables struct {
	log *slog.Logger
	now func() time.Time
	mu  sync.Mutex
	// said is when a line was written, by cell, and filter or key of a warning.
	logged map[[2]string]time.Time
}

func (u *unreadables) logReject(ctx context.Context, cell string, r *cellgatev1.RejectCount) {
	if u.due([2]string{cell, r.GetFilter()}) {
		u.log.WarnContext(ctx, "hosts are left out: a filter cannot read them, and Nova would fail the request", "cell", cell,
			"filter", r.GetFilter(), "hosts", r.GetHosts(), "host", r.GetExample(), "class", r.GetExceptionClass(), "message", r.GetExceptionMessage())
	}
}

// logWarning is tell for hosts that pass: something else counts for them.
func (u *unreadables) logWarning(ctx context.Context, cell string, w *cellgatev1.WarningCount) {
	switch {
	case !u.due([2]string{cell, w.GetKey()}):
	case w.GetExceptionClass() == "":
		u.log.WarnContext(ctx, "hosts say what cannot be read, and a default counts", "cell", cell,
			"key", w.GetKey(), "hosts", w.GetHosts(), "host", w.GetExample())
	default:
		u.log.WarnContext(ctx, "hosts are weighed by a default: a weigher cannot read them, and Nova fails requests that weigh them", "cell", cell,
			"weigher", w.GetKey(), "hosts", w.GetHosts(), "host", w.GetExample(), "class", w.GetExceptionClass(), "message", w.GetExceptionMessage())
	}
}

func (u *unreadables) due(of [2]string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, ok := u.logged[of]
	now := u.now()
	if ok && now.Sub(at) < sayAgain {
		return false
	}
	if u.logged == nil {
		u.logged = map[[2]string]time.Time{}
	}
	u.logged[of] = now
	return true
}
