package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/capacity"
	"cellgate/gateway/cellclient"
	"cellgate/gateway/claims"
	"cellgate/gateway/decisions"
	"cellgate/gateway/legacy/gatewatch"
	"cellgate/gateway/rules"
	"cellgate/gateway/selection"
	"cellgate/internal/health"
	"cellgate/internal/ingress"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule/nova"
)

// Cells gives the gateway's cells, for other servers that share its connections.
func (g *Gateway) Cells() *cellclient.Cells { return g.cells }

// Config says which cells there are and what to decide by. The zero value of
// each field but Cells means its default.
type Config struct {
	// Name is what people call this gateway: its machine, and where it listens. It is in
	// reports to cells under upgrade.
	Name string
	// WebURL is the address at which REST, the console and /metrics are served; empty if they are not.
	WebURL string
	// Cells in the order in which answers list them.
	Cells []cellclient.CellConfig
	// ProposeBudget bounds a cell's answer to one round of a merge (250 ms); it
	// is never more than half of the time a request has left.
	ProposeBudget time.Duration
	// ClaimBudget bounds a cell's answer to a claim, a read or a release (2 s).
	ClaimBudget time.Duration
	// MaxDeadline bounds a request whose caller set no deadline, or a later
	// one (30 s).
	MaxDeadline time.Duration
	rules.Config
	// MaxInFlight bounds the calls that wait or run at once in each queue: selections,
	// changes of claims, others (1024). It bounds the memory where the adaptive limits are
	// higher.
	MaxInFlight int
	// KeepOrder makes the first pick the best host even while claims conflict. Without it,
	// requests then pick among the best few; see selection/contention.go.
	KeepOrder bool
	// HintExpressions allows the scheduler hint cellgate:filter to carry an expression.
	// Anybody who may create a server writes its hints.
	HintExpressions bool
	// DecisionQueue is how many decisions may wait to be written; more are dropped
	// and counted (4096).
	DecisionQueue int
	// Breaker configures each replica's breaker.
	Breaker cellclient.BreakerConfig
}

// CellConfig is one cell.
type CellConfig = cellclient.CellConfig

// BreakerConfig says when a replica is left alone and when it is tried again.
type BreakerConfig = cellclient.BreakerConfig

// Deps are the parts a gateway is given.
type Deps struct {
	// Dial makes a connection as rpc.Dial does: lazily, with errors decoded to
	// *fault.Error.
	Dial func(target string) (*grpc.ClientConn, error)
	Log  *slog.Logger
	// Legacy has the parts of each cell under upgrade from Nova's own tables, by its name.
	Legacy map[string]gatewatch.Parts
	// Now is the clock of summaries and ids; nil means time.Now.
	Now func() time.Time
	// Telemetry may be nil. Its server options belong to the server that the gateway is
	// registered with.
	Telemetry telemetry.Gateway
	// Ingress bounds the bodies of REST requests, as the server's does those of gRPC; nil for
	// one with the defaults.
	Ingress *ingress.Ingress
	// Segments asks Neutron for the segments of ports and networks; nil without Neutron.
	Segments func(context.Context, []nova.RequestedNetwork) ([][]string, error)
}

// Gateway serves the public API.
type Gateway struct {
	cfg       Config
	log       *slog.Logger
	now       func() time.Time
	tel       telemetry.Gateway
	in        *ingress.Ingress
	cells     *cellclient.Cells
	gates     gates
	decisions *decisions.Recorder
	claims    *claims.Service
	selector  *selection.Service
	capacity  *capacity.Service
	ready     chan struct{}
	health    *health.Monitor
	// queues admit calls.
	queues queues
}

// New makes a gateway and its connections; nothing is sent before Run or the
// first request. Every problem of the configuration is reported at once.
func New(cfg Config, deps Deps) (*Gateway, error) {
	cfg = withDefaults(cfg)
	if err := checkConfig(cfg, len(deps.Legacy) > 0); err != nil {
		return nil, err
	}
	decideBy, err := rules.Compile(cfg.Config)
	if err != nil {
		return nil, err // checkConfig refuses it first
	}
	g := &Gateway{cfg: cfg, log: deps.Log, now: deps.Now, tel: deps.Telemetry, in: deps.Ingress, queues: newQueues(cfg.MaxInFlight), ready: make(chan struct{})}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.in == nil {
		g.in = ingress.New(ingress.Limits{})
	}
	g.health = health.New(g.aliveChecks, g.readyChecks)
	g.cells, err = cellclient.New(cfg.Cells, cellclient.Config{ProposeBudget: cfg.ProposeBudget, ClaimBudget: cfg.ClaimBudget, Breaker: cfg.Breaker},
		cellclient.Deps{Dial: deps.Dial, Log: g.log, Now: g.now, Telemetry: g.tel})
	if err != nil {
		return nil, err
	}
	g.gates = newGates(g, deps.Legacy)
	g.decisions = decisions.New(g.cells, cfg.DecisionQueue, g.log, g.now, g.tel)
	g.claims = claims.New(claims.Deps{
		Cells: g.cells, Rules: decideBy.Plain(""), Unscheduled: func(c *cellclient.Cell) bool { return g.gates[c].Only() },
		Log: g.log, Now: g.now, Telemetry: g.tel,
	})
	g.selector = selection.New(selection.Config{KeepOrder: cfg.KeepOrder, HintExpressions: cfg.HintExpressions}, selection.Deps{
		Cells: g.cells, Claims: g.claims, Decisions: g.decisions, Rules: decideBy, Gates: g.gates, Log: g.log, Now: g.now, Telemetry: g.tel, Segments: deps.Segments,
		UnknownValues: g.unknownValues,
	})
	g.capacity = capacity.New(capacity.Deps{Cells: g.cells, Selector: g.selector, Gates: g.gates, MaxDeadline: cfg.MaxDeadline})
	g.tel.Watch(g.queues.each, g.cells.SummaryAges)
	g.tel.WatchLegacy(g.readLegacy)
	return g, nil
}

// handlers is how many worker goroutines handle requests: their stacks have already grown.
// Further requests at the same time run on new goroutines.
const handlers = 64

// Register adds the public services to a server.
func (g *Gateway) Register(s grpc.ServiceRegistrar) {
	cellgatev1.RegisterSchedulerServer(s, &schedulerService{g: g})
	cellgatev1.RegisterClaimsServer(s, &claimsService{g: g})
	cellgatev1.RegisterCellsServer(s, &cellsService{g: g})
	cellgatev1.RegisterHostsServer(s, &hostsService{g: g})
	cellgatev1.RegisterCapacityServer(s, &capacityService{g: g})
}

// Run keeps the cells' summaries fresh and probes their replicas until ctx ends, then waits for the
// releases under way and the decisions that are left, and closes the connections. The server must have stopped
// taking requests before ctx ends. Run is called once.
func (g *Gateway) Run(ctx context.Context) error {
	stop := g.decisions.Start()
	var parts sync.WaitGroup
	parts.Go(func() { g.gates.watch(ctx) })
	parts.Go(func() { g.claims.Run(ctx) })
	g.cells.Watch(ctx, func() { g.gates.first(); close(g.ready) }, g.claims.VerifyConfirmed)
	parts.Wait()
	g.cells.Wait()
	stop()
	g.cells.Close()
	return nil
}

// Ready is closed once every cell has been asked for its summary, whether it answered or not, and each gate
// of a cell under upgrade has read its rows, or did not in time.
func (g *Gateway) Ready() <-chan struct{} { return g.ready }

func withDefaults(cfg Config) Config {
	cfg.ProposeBudget = cmp.Or(cfg.ProposeBudget, 250*time.Millisecond)
	cfg.ClaimBudget = cmp.Or(cfg.ClaimBudget, 2*time.Second)
	cfg.MaxDeadline = cmp.Or(cfg.MaxDeadline, 30*time.Second)
	cfg.MaxInFlight = cmp.Or(cfg.MaxInFlight, 1024)
	cfg.DecisionQueue = cmp.Or(cfg.DecisionQueue, 4096)
	cfg.Breaker.Failures = cmp.Or(cfg.Breaker.Failures, 5)
	cfg.Breaker.OpenFor = cmp.Or(cfg.Breaker.OpenFor, time.Second)
	cfg.Breaker.ProbeEvery = cmp.Or(cfg.Breaker.ProbeEvery, 500*time.Millisecond)
	cfg.Breaker.ProbeBudget = cmp.Or(cfg.Breaker.ProbeBudget, 500*time.Millisecond)
	cfg.Config = cfg.Config.WithDefaults()
	return cfg
}
