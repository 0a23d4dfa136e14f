package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	cellgatev1 "cellgate/proto/cellgate/v1"
)

// sayAgain is how long no line is written of hosts that the same filter cannot read in
// the same cell. The metric counts all of them.
const sayAgain = time.Minute

// unreadables writes of hosts that a filter leaves out because Nova would raise an
// exception for them.
type unreadables struct {
	log *slog.Logger
	now func() time.Time
	mu  sync.Mutex
	// said is when a line was written, by cell and filter.
	said map[[2]string]time.Time
}

func (u *unreadables) tell(ctx context.Context, cell string, r *cellgatev1.RejectCount) {
	if u.due([2]string{cell, r.GetFilter()}) {
		u.log.WarnContext(ctx, "hosts are left out: a filter cannot read them, and Nova would fail the request", "cell", cell,
			"filter", r.GetFilter(), "hosts", r.GetHosts(), "host", r.GetExample(), "class", r.GetExceptionClass(), "message", r.GetExceptionMessage())
	}
}

func (u *unreadables) due(of [2]string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, ok := u.said[of]
	now := u.now()
	if ok && now.Sub(at) < sayAgain {
		return false
	}
	if u.said == nil {
		u.said = map[[2]string]time.Time{}
	}
	u.said[of] = now
	return true
}
