package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
	"google.golang.org/grpc"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/legacy/gatewatch"
	"cellgate/internal/expression"
	"cellgate/internal/health"
	"cellgate/internal/ingress"
	"cellgate/internal/telemetry"
	cellgatev1 "cellgate/proto/cellgate/v1"
	"cellgate/schedule/nova"
)

// Config says which cells there are and what to decide by. The zero value of
// each field but Cells means its default.
type Config struct {
	// Name is what people call this gateway: its machine, and where it listens. Cells that
	// are under upgrade are told it.
	Name string
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
	// Filters and Weighers in their order; empty: schedule's defaults. See FiltersInForce.
	Filters  []string
	Weighers []WeigherConfig
	// Options of filters and weighers; nil: Nova's defaults.
	Options *Options
	// PCIAliases are those that flavors of the typed form may name ([pci] alias).
	PCIAliases []PCIAlias
	// DefaultAvailabilityZone is the zone of a host that is in none ("nova").
	DefaultAvailabilityZone string
	// MaxInFlight bounds the calls that wait or run at once, of selections, of changes of
	// claims and of others: memory, where the limits that adapt are above it (1024).
	MaxInFlight int
	// KeepOrder: the first pick is the best host also while requests get in each
	// other's way. Without it they choose among the first few then; see contention.go.
	KeepOrder bool
	// HintExpressions: the hint cellgate:filter may bring an expression. Whoever may make a
	// server writes its hints.
	HintExpressions bool
	// FilterExpression, in CEL, must be true of the hosts of every request; WeighExpression
	// gives them a raw weight that counts WeighMultiplier times, which has no default. Empty
	// for none; docs/explanation/facts.md.
	FilterExpression, WeighExpression string
	WeighMultiplier                   float64
	// DecisionQueue is how many decisions may wait to be written; more are dropped
	// and counted (4096).
	DecisionQueue int
	// ReconcileEvery is how often moves between cells are looked for that nobody finished
	// (1 m).
	ReconcileEvery time.Duration
	// Breaker is of every replica.
	Breaker cellclient.BreakerConfig
}

// CellConfig is one cell.
type CellConfig = cellclient.CellConfig

// BreakerConfig says when a replica is left alone and when it is tried again.
type BreakerConfig = cellclient.BreakerConfig

// WeigherConfig is a weigher and its multiplier.
type WeigherConfig struct {
	Name       string
	Multiplier float64
}

// PCIAlias is a name for PCI devices that flavors may ask for.
type PCIAlias = nova.Alias

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
	// OnBreaker is told of every change of a replica's breaker; nil for nobody.
	OnBreaker func(cell, replica string, from, to gobreaker.State)
	// Telemetry may be nil. The server that the gateway is registered with has
	// its options.
	Telemetry *telemetry.Gateway
	// Ingress bounds the bodies of REST requests, as the server's does those of gRPC; nil for
	// one with the defaults.
	Ingress *ingress.Ingress
}

// Gateway serves the public API.
type Gateway struct {
	cfg   Config
	log   *slog.Logger
	now   func() time.Time
	tel   *telemetry.Gateway
	in    *ingress.Ingress
	cells *cellclient.Cells
	gates gates
	hints *hints
	// expressions of requests, compiled.
	expressions expression.Cache
	// configured are those of the configuration.
	configured configuredExpressions
	flights    *flights
	// unreleased are claims left to their leases.
	unreleased unreleased
	// unreadable tells of hosts that a filter cannot read.
	unreadable unreadables
	// decisions writes down what was decided.
	decisions *recorder
	// translation is what requests are translated under.
	translation *nova.Options
	ready       chan struct{}
	health      *health.Monitor
	// confirmed and unseen keep two confirmed claims of an instance from being made,
	// or from staying unknown, where a cell does not answer.
	confirmed confirmedRequests
	unseen    unverifiedClaims
	moves     unfinishedMoves
	// lanes admit calls.
	lanes lanes
}

// New makes a gateway and its connections; nothing is sent before Run or the
// first request. Every problem of the configuration is reported at once.
func New(cfg Config, deps Deps) (*Gateway, error) {
	cfg = withDefaults(cfg)
	if err := checkConfig(cfg, deps.Legacy); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, log: deps.Log, now: deps.Now, tel: deps.Telemetry, hints: newHints(maxHints), flights: newFlights(), lanes: newLanes(cfg.MaxInFlight), ready: make(chan struct{})}
	aliases, _, err := nova.NewAliases(cfg.PCIAliases)
	if err != nil {
		return nil, err // checkConfig has said so
	}
	if g.configured, err = configuredIn(cfg); err != nil {
		return nil, err // as above
	}
	g.translation = cfg.Options.translation(aliases)
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.now == nil {
		g.now = time.Now
	}
	if g.in = deps.Ingress; g.in == nil {
		g.in = ingress.New(ingress.Limits{})
	}
	g.unreleased.log = g.log
	g.unreadable.log, g.unreadable.now = g.log, g.now
	g.health = health.New(g.aliveChecks, g.readyChecks)
	g.cells, err = cellclient.New(cfg.Cells, cellclient.Config{ProposeBudget: cfg.ProposeBudget, ClaimBudget: cfg.ClaimBudget, Breaker: cfg.Breaker},
		cellclient.Deps{Dial: deps.Dial, Log: g.log, Now: g.now, OnBreaker: deps.OnBreaker, Telemetry: g.tel})
	if err != nil {
		return nil, err
	}
	g.gates = newGates(g, deps.Legacy)
	g.decisions = newRecorder(g, cfg.DecisionQueue)
	g.tel.Watch(g.lanes.each, g.cells.SummaryAges)
	g.tel.WatchLegacy(g.readLegacy)
	return g, nil
}

// handlers is how many goroutines wait to handle requests. Their stacks have grown to
// what a request takes; with more requests at once, the others get new ones.
const handlers = 64

// Register adds the public services to a server.
func (g *Gateway) Register(s grpc.ServiceRegistrar) {
	cellgatev1.RegisterSchedulerServer(s, &schedulerService{g: g})
	cellgatev1.RegisterClaimsServer(s, &claimsService{g: g})
	cellgatev1.RegisterCellsServer(s, &cellsService{g: g})
	cellgatev1.RegisterHostsServer(s, &hostsService{g: g})
}

// Run keeps the cells' summaries fresh and probes their replicas until ctx ends, then waits for the
// releases under way and the decisions that are left, and closes the connections. The server must have stopped
// taking requests before ctx ends. Run is called once.
func (g *Gateway) Run(ctx context.Context) error {
	stop, told := g.decisions.start(), g.unreleased.start()
	var gates sync.WaitGroup
	gates.Go(func() { g.gates.watch(ctx) })
	gates.Go(func() { g.watchMoves(ctx) })
	g.cells.Watch(ctx, func() { g.gates.first(); close(g.ready) }, g.lookAgain)
	gates.Wait()
	g.cells.Wait()
	told()
	stop()
	g.cells.Close()
	return nil
}

// Ready is closed when every cell has been asked for its summary once, whether
// it answered or not, and the gates of cells under upgrade have been looked for.
func (g *Gateway) Ready() <-chan struct{} { return g.ready }

func withDefaults(cfg Config) Config {
	setDefault(&cfg.ProposeBudget, 250*time.Millisecond)
	setDefault(&cfg.ClaimBudget, 2*time.Second)
	setDefault(&cfg.MaxDeadline, 30*time.Second)
	setDefault(&cfg.DefaultAvailabilityZone, "nova")
	setDefault(&cfg.MaxInFlight, 1024)
	setDefault(&cfg.DecisionQueue, 4096)
	setDefault(&cfg.ReconcileEvery, time.Minute)
	setDefault(&cfg.Breaker.Failures, 5)
	setDefault(&cfg.Breaker.OpenFor, time.Second)
	setDefault(&cfg.Breaker.ProbeEvery, 500*time.Millisecond)
	setDefault(&cfg.Breaker.ProbeBudget, 500*time.Millisecond)
	setDefault(&cfg.Breaker.Window, max(10*time.Second, 2*longestBudget(cfg)))
	cfg.Filters = FiltersInForce(cfg.Filters)
	if len(cfg.Weighers) == 0 {
		cfg.Weighers = defaultWeighers(cfg.Options.release())
	}
	return cfg
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
