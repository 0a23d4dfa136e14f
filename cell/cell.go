package cell

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"cellgate/cell/agents"
	"cellgate/cell/gate"
	"cellgate/cell/liveness"
	"cellgate/cell/placement"
	"cellgate/cell/proposals"
	"cellgate/cell/reconcile"
	"cellgate/cell/replica"
	"cellgate/internal/fault"
	"cellgate/internal/health"
	"cellgate/internal/telemetry"
	agentv1 "cellgate/proto/cellgate/agent/v1"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
	"cellgate/shard"
)

// Cell is one scheduler replica of a cell.
type Cell struct {
	cfg   Config
	uuid  string
	store shard.Store
	now   func() time.Time
	log   *slog.Logger
	tel   telemetry.Cell

	// table is the shard as this replica knows it. The next fields are parts of the table.
	table    *replica.Replica
	rows     *replica.Rows
	versions *proposals.Versions
	queue    *replica.Queue
	journal  *replica.Journal
	live     *liveness.Tracker

	agents    *agents.Service
	gate      *gate.Keeper
	statuses  *statusWatch
	reconcile *reconcile.Reconciler
	shapes    *proposals.Shapes
	summary   *totals
	packing   packing
	health    *health.Monitor
	// slots bounds the proposals that are computed at once.
	slots chan struct{}
	// trials bounds the capacity requests that are served at once.
	trials chan struct{}
	// nearMisses bounds the work on near misses of refused requests.
	nearMisses *nearMissBudget
	phase      *phase
}

// phase is how far the replica's start has come.
type phase struct {
	// open is closed when the lane is open, ready when the table is loaded, too.
	open, ready chan struct{}
	// stopping is done when the replica must stop; stop ends it.
	stopping context.Context
	stop     context.CancelFunc
}

// New makes a replica. It does nothing until Run.
func New(cfg Config, deps Deps) (*Cell, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if deps.Store == nil {
		return nil, fault.Invalid("store", "must not be nil")
	}
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("cell", cfg.Name, "replica", cfg.Replica)
	now := deps.Now
	if now == nil {
		now = time.Now
	}
	id, err := schedule.ParseID(cfg.UUID)
	if err != nil {
		return nil, fault.Invalid("uuid", "%v", err)
	}
	phase := &phase{open: make(chan struct{}), ready: make(chan struct{})}
	phase.stopping, phase.stop = context.WithCancel(context.Background())
	live := liveness.New(cfg.ServiceDownTime, now)
	state := replica.NewState(replica.Config{
		CellUUID: id.String(), ColdHosts: cfg.ColdHosts, MaxBatch: cfg.MaxBatch, MaxQueue: cfg.MaxQueue, SnapshotTTL: cfg.SnapshotTTL,
		LeaseScan: cfg.LeaseScan, TailEvery: cfg.TailEvery, DecisionsKeep: cfg.DecisionsKeep, MaxDecisions: cfg.MaxDecisions,
		Store: deps.Store, Synchronizer: deps.Synchronizer, Now: now, Log: log, Telemetry: deps.Telemetry,
	}, live)
	gate := gate.NewKeeper(gate.Rules{Settle: cfg.GateSettle, Classes: cfg.GateClasses, AgentVersion: int32(cfg.GateAgentVersion), DownTime: cfg.ServiceDownTime}, now)
	agents := agents.New(phase.stopping, agents.Config{
		Cell: cfg.Name, HeartbeatEvery: cfg.HeartbeatEvery, MaxStates: min(agents.MaxStates, cfg.MaxQueue/2),
		MaxHosts: cfg.MaxHosts, MaxHostsMiB: cfg.MaxHostsMiB, MaxAgentHosts: cfg.MaxAgentHosts, MaxAgentHostsMiB: cfg.MaxAgentHostsMiB,
		VerifyMode: cfg.VerifyMode, VerifyWait: cfg.VerifyWait, MaxAsking: cfg.ReconcileGrace, Now: now, Log: log, Telemetry: deps.Telemetry,
	}, state, gate, phase.ready)
	c := &Cell{
		cfg: cfg, uuid: id.String(), store: deps.Store, now: now, log: log, tel: deps.Telemetry,
		table: replica.New(state, agents.Verify), rows: state.Rows, versions: state.Versions, queue: state.Queue, journal: state.Journal, live: live,
		agents: agents, gate: gate, statuses: &statusWatch{gate: gate, rows: state.Rows, queue: state.Queue, log: log},
		reconcile: reconcile.New(reconcile.Config{
			Cell: cfg.Name, Interval: cfg.ReconcileInterval, Grace: cfg.ReconcileGrace, Release: cfg.ReconcileRelease, ReportOnly: cfg.ReconcileReportOnly,
			Now: now, Log: log, Telemetry: deps.Telemetry,
		}, state, agents),
		shapes: proposals.NewShapes(), summary: newTotals(),
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)), trials: make(chan struct{}, maxTrials), phase: phase, nearMisses: newNearMissBudget(time.Now()),
	}
	c.health = health.New(c.aliveChecks, c.readyChecks)
	c.tel.Watch(c.reading)
	return c, nil
}

// Register adds the cell's services to a server.
func (c *Cell) Register(s grpc.ServiceRegistrar) {
	cellv1.RegisterCellSchedulerServer(s, &scheduler{Cell: c})
	cellv1.RegisterCellPlacementServer(s, placement.New(c.table.State, c.loaded))
	agentv1.RegisterHostReportsServer(s, c.agents)
}

// Ready is closed when the table is loaded and the lane is open. A replica whose store can find hosts
// itself (shard.HostFinder) answers queries before that.
func (c *Cell) Ready() <-chan struct{} { return c.phase.ready }

// Run opens a lane, loads the shard and serves until ctx ends or a part of the cell fails. Before it
// returns, the transaction in flight has finished, agents' streams have ended, and so have all
// goroutines. Run may be called once.
func (c *Cell) Run(ctx context.Context) error {
	endWriting := c.table.StartWriter()
	err := c.serve(ctx)
	c.stopServing()
	endWriting()
	return err
}

func (c *Cell) stopServing() { c.phase.stop() }

// serve runs everything that feeds the writer. Claims are committed as soon as the lane is open.
// Everything that reads the table, or follows other replicas, starts when the table is loaded.
func (c *Cell) serve(ctx context.Context) error {
	start := time.Now()
	lane, err := c.table.OpenLane(ctx, c.cfg.Replica)
	if err != nil {
		return c.startError(ctx, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	c.table.StartCommitting(ctx, g, lane)
	g.Go(func() error { return c.statuses.run(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		c.stopServing()
		return nil
	})
	close(c.phase.open) // open is closed before ready
	c.health.Changed()
	g.Go(func() error {
		if err := c.table.Load(ctx); err != nil {
			return c.startError(ctx, err)
		}
		c.table.StartFollowing(ctx, g)
		c.agents.Run(ctx, g)
		outages := liveness.NewOutageLog(c.live, c.rows.ServiceHost, c.rows.Imported, c.rows.AnsweredFromTables, c.log)
		g.Go(func() error {
			return c.live.Run(ctx, func(ctx context.Context) {
				c.table.Imports.Check()
				outages.LogChanges(ctx)
			})
		})
		g.Go(func() error { return c.reconcile.Run(ctx) })
		// Before ready, catch up with what other replicas wrote while the shard was loaded.
		for c.journal.AwaitFresh(ctx) != nil {
			if ctx.Err() != nil {
				return nil
			}
		}
		close(c.phase.ready)
		c.health.Changed()
		c.log.Info("cell is ready", "hosts", c.versions.Current().Len(), "lane", lane.ID().Incarnation, "took", time.Since(start), "cold_queries", c.table.Cold.Answered())
		return nil
	})
	return g.Wait()
}

// startError is the error of a start that was not completed. It is nil if the replica was asked to
// stop, unless the store is broken.
func (c *Cell) startError(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, shard.ErrBroken) {
		return err
	}
	c.log.Info("cell was stopped while it loaded its shard")
	return nil
}

// serving is nil if requests can be answered, if only from the shard.
func (c *Cell) serving() error {
	select {
	case <-c.phase.open:
		if c.loading() && !c.table.Cold.Serves() {
			return errLoading()
		}
		return c.running()
	default:
		return cmp.Or(c.running(), errLoading())
	}
}

// loaded is nil if requests that need the whole table can be answered.
func (c *Cell) loaded() error {
	if err := c.running(); err != nil || !c.loading() {
		return err
	}
	return errLoading()
}

// loading reports whether the table is still being loaded.
func (c *Cell) loading() bool {
	select {
	case <-c.phase.ready:
		return false
	default:
		return true
	}
}

func (c *Cell) running() error {
	select {
	case <-c.phase.stopping.Done():
		return replica.ErrStopping()
	default:
		return nil
	}
}

func errLoading() error {
	return fault.New(fault.CellUnavailable, "the cell's replica is loading its shard")
}

// placing is nil if instances can be placed here: requests can be answered, and the store does not
// fail.
func (c *Cell) placing() error {
	if err := c.serving(); err != nil {
		return err
	}
	return c.table.Stored.WhyFailing()
}

// scheduler serves gateways.
type scheduler struct {
	cellv1.UnimplementedCellSchedulerServer
	*Cell
}
