package selection

import (
	"context"
	"log/slog"
	"time"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/gateway/decisions"
	"cellgate/gateway/rules"
	"cellgate/internal/expression"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule/nova"
)

// Config says how requests are served.
type Config struct {
	// ProposeBudget bounds a cell's answer to one round of a merge, ClaimBudget its answer to a claim.
	ProposeBudget, ClaimBudget time.Duration
	// KeepOrder: the first pick is the best host also while requests get in each other's way. Without it they choose
	// among the first few then; see contention.go.
	KeepOrder bool
	// HintExpressions: the hint cellgate:filter may bring an expression. Whoever may make a server writes its hints.
	HintExpressions bool
}

// Standing is what an upgrade from Nova's own tables says of cells.
type Standing interface {
	// Disabled says why nothing new is placed in a cell; "" if something may be.
	Disabled(c *cellclient.Cell) string
	// Accept gives the error of an answer that does not count.
	Accept(c *cellclient.Cell, answer *cellv1.Proposal) error
	// Source is where a cell's candidates come from, with its gate at the state that its answer named, and why.
	Source(c *cellclient.Cell, s cellgatev1.Gate_State) (from cellgatev1.CellSource, why string)
}

// Deps are the parts of a selector.
type Deps struct {
	Cells     *cellclient.Cells
	Claims    *claims.Service
	Decisions *decisions.Recorder
	Rules     *rules.Rules
	Standing  Standing
	Log       *slog.Logger
	Now       func() time.Time
	Telemetry *telemetry.Gateway
	// Segments gives, for ports and networks, the aggregates of their segments: of each set one has
	// the host. Nil: requests that name any are refused while Nova's option is on.
	Segments func(context.Context, []nova.RequestedNetwork) ([][]string, error)
	// UnknownValues says which values of a request no cell has: a misspelt one refuses every host.
	UnknownValues func(context.Context, *cellgatev1.RequestSpec) []string
}

// Service serves SelectDestinations. Safe for concurrent use.
type Service struct {
	cfg       Config
	cells     *cellclient.Cells
	claims    *claims.Service
	decisions *decisions.Recorder
	rules     *rules.Rules
	standing  Standing
	log       *slog.Logger
	now       func() time.Time
	tel       *telemetry.Gateway
	segments  func(context.Context, []nova.RequestedNetwork) ([][]string, error)
	unknown   func(context.Context, *cellgatev1.RequestSpec) []string
	shapes    *shapes
	// expressions of requests, compiled.
	expressions expression.Cache
	flights     *flights
	// unreadable logs hosts that a filter cannot read.
	unreadable *throttle.Log
}

func New(cfg Config, deps Deps) *Service {
	return &Service{
		cfg: cfg, cells: deps.Cells, claims: deps.Claims, decisions: deps.Decisions, rules: deps.Rules, standing: deps.Standing,
		log: deps.Log, now: deps.Now, tel: deps.Telemetry, segments: deps.Segments, unknown: deps.UnknownValues, shapes: newShapes(maxShapes), flights: newFlights(),
		unreadable: throttle.New(deps.Log, deps.Now, time.Minute),
	}
}
