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

// Config has the options of selections.
type Config struct {
	// KeepOrder makes the first pick the best host even while claims conflict. Without it, requests then pick among
	// the best few; see contention.go.
	KeepOrder bool
	// HintExpressions allows the hint cellgate:filter to carry an expression. Anybody who may create a server writes
	// its hints.
	HintExpressions bool
}

// Gates tells what an upgrade from Nova's own tables means for cells.
type Gates interface {
	// Disabled says why nothing new is placed in a cell; "" if something may be.
	Disabled(c *cellclient.Cell) string
	// Accept gives the error of an answer that does not count; nil if it does.
	Accept(c *cellclient.Cell, answer *cellv1.Proposal) error
	// Source gives where a cell's candidates come from, by the gate state s that its answer named, and why.
	Source(c *cellclient.Cell, s cellgatev1.Gate_State) (from cellgatev1.CellSource, why string)
}

// Deps are the parts of a selector.
type Deps struct {
	Cells     *cellclient.Cells
	Claims    *claims.Service
	Decisions *decisions.Recorder
	Rules     *rules.Rules
	Gates     Gates
	Log       *slog.Logger
	Now       func() time.Time
	Telemetry telemetry.Gateway
	// Segments gives, for ports and networks, sets of aggregates of their segments; a host must be
	// in one aggregate of each set. If it is nil, requests with networks are refused while Nova's
	// option is on.
	Segments func(context.Context, []nova.RequestedNetwork) ([][]string, error)
	// UnknownValues names the values of a request that no cell has; a misspelt value makes every host fail.
	UnknownValues func(context.Context, *cellgatev1.RequestSpec) []string
}

// Service serves SelectDestinations. Safe for concurrent use.
type Service struct {
	Config
	Deps
	shapes *shapes
	// expressions caches the compiled expressions of requests.
	expressions expression.Cache
	flights     *flights
	// unreadable logs hosts that a filter cannot read.
	unreadable *throttle.Log
}

func New(cfg Config, deps Deps) *Service {
	return &Service{
		Config: cfg, Deps: deps, shapes: newShapes(maxShapes), flights: newFlights(),
		unreadable: throttle.New(deps.Log, deps.Now, time.Minute),
	}
}
