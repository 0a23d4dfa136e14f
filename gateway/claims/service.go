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

// DefaultTTL is a claim's lease when the request does not say.
const DefaultTTL = 300 * time.Second

// Config bounds what is asked of cells.
type Config struct {
	// ProposeBudget bounds a look for other claims of a consumer, ClaimBudget a call that reads or changes claims.
	ProposeBudget, ClaimBudget time.Duration
}

// Deps are the parts of a claimer.
type Deps struct {
	Cells *cellclient.Cells
	// Rules are those of a request without a strategy.
	Rules *schedule.Rules
	// Unscheduled reports whether a cell has no scheduler but one in this process, so that nothing is found there.
	Unscheduled func(*cellclient.Cell) bool
	Log         *slog.Logger
	Now         func() time.Time
	Telemetry   *telemetry.Gateway
}

// Service serves what changes and shows claims once they are made.
type Service struct {
	cfg         Config
	cells       *cellclient.Cells
	rules       *schedule.Rules
	unscheduled func(*cellclient.Cell) bool
	log         *slog.Logger
	now         func() time.Time
	tel         *telemetry.Gateway
	// confirmed and unseen keep two confirmed claims of an instance from being made, or from staying unknown, where a
	// cell does not answer.
	confirmed confirmedRequests
	unseen    unverifiedClaims
	moves     unfinishedMoves
	// unreleased logs claims that are left to their leases.
	unreleased *throttle.Log
}

func New(cfg Config, deps Deps) *Service {
	svc := &Service{
		cfg: cfg, cells: deps.Cells, rules: deps.Rules, unscheduled: deps.Unscheduled, log: deps.Log, now: deps.Now, tel: deps.Telemetry,
		unreleased: throttle.New(deps.Log, deps.Now, 10*time.Second),
	}
	return svc
}

// Run finishes moves that nobody finished, until ctx ends.
func (svc *Service) Run(ctx context.Context) {
	svc.watchMoves(ctx)
}

// ConfirmedIn gives the cells in which claims of a request were confirmed lately, as far as this gateway knows.
func (svc *Service) ConfirmedIn(requestID string, fingerprint []byte) []*cellclient.Cell {
	return svc.confirmed.cellsOf(confirmedKey(requestID, fingerprint))
}
