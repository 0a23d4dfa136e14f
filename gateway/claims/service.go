package claims

import (
	"context"
	"log/slog"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	"cellgate/schedule"
)

// DefaultTTL is the lease of a claim whose request names none.
const DefaultTTL = 300 * time.Second

// Deps are the parts that a Service needs.
type Deps struct {
	Cells *cellclient.Cells
	// Rules are those of a request without a strategy.
	Rules *schedule.Rules
	// Unscheduled reports whether a cell's only scheduler is in this process; such a cell has no findings.
	Unscheduled func(*cellclient.Cell) bool
	Log         *slog.Logger
	Now         func() time.Time
	Telemetry   telemetry.Gateway
}

// Service serves what changes and shows claims once they are made.
type Service struct {
	Deps
	// confirmed helps to prevent second confirmed claims of an instance while a cell does not answer; unseen helps to
	// find them afterwards.
	confirmed confirmedRequests
	unseen    unverifiedClaims
	moves     unfinishedMoves
	// unreleased logs claims that are left to their leases.
	unreleased *throttle.Log
}

func New(deps Deps) *Service {
	return &Service{Deps: deps, unreleased: throttle.New(deps.Log, deps.Now, 10*time.Second)}
}

// Run finishes moves between cells that no caller finished, until ctx ends.
func (svc *Service) Run(ctx context.Context) {
	svc.watchMoves(ctx)
}

// ConfirmedIn gives the cells in which claims of a request were confirmed lately, as far as this gateway knows.
func (svc *Service) ConfirmedIn(requestID string, fingerprint []byte) []*cellclient.Cell {
	return svc.confirmed.cellsOf(confirmedKey(requestID, fingerprint))
}
