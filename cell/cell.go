package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"cellgate/internal/fault"
	"cellgate/internal/health"
	"cellgate/internal/proposing"
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
	tel   *telemetry.Cell

	rows      *rows
	live      *liveness
	outages   *outages
	versions  *proposing.Versions
	shapes    *proposing.Shapes
	writer    *writer
	follower  *follower
	pipeline  *pipeline
	keeper    *keeper
	stored    *storeWatch
	cold      *cold
	gate      *gatekeeper
	nova      *novaWatch
	imports   *importOrder
	health    *health.Monitor
	summary   *totals
	order     hostOrder
	strangers strangers
	verify    *verifier
	reported  reported
	refusals  refusals
	reconcile *reconciler
	// sessions are the streams of the agents that this replica hears.
	sessions sessions
	// slots bounds the proposals computed at once, states the agents' states that are in
	// the pipeline, reading those that are read at once: half of the processors at most, so
	// that thousands of states that come together leave room for proposals.
	slots, states, decoding chan struct{}

	// open is closed when the lane is open, ready when the table is loaded too.
	open     chan struct{}
	ready    chan struct{}
	stopping chan struct{}
	stop     sync.Once
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
	now := deps.Now
	if now == nil {
		now = time.Now
	}
	id, err := schedule.ParseID(cfg.UUID)
	if err != nil {
		return nil, fault.Invalid("uuid", "%v", err)
	}
	c := &Cell{
		cfg: cfg, uuid: id.String(), store: deps.Store, now: now, log: log.With("cell", cfg.Name, "replica", cfg.Replica), tel: deps.Telemetry,
		rows: newRows(), summary: newTotals(), live: newLiveness(cfg.ServiceDownTime, now), versions: proposing.NewVersions(cfg.PinFor, cfg.MaxPinned, now), shapes: proposing.NewShapes(),
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)), states: make(chan struct{}, max(min(maxStates, cfg.MaxQueue/2), 1)),
		decoding: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1)),
		open:     make(chan struct{}), ready: make(chan struct{}), stopping: make(chan struct{}),
	}
	c.rows.stale.Store(true)
	c.cold = newCold(cfg, deps.Store, c.versions, now, c.log)
	c.stored = &storeWatch{now: now}
	c.gate = newGatekeeper(cfg, now)
	c.imports = newImportOrder(now)
	c.health = health.New(c.aliveChecks, c.readyChecks)
	c.outages = newOutages(c.live, c.rows.serviceHost, c.rows.imported, c.rows.answeredFromTables, c.log)
	c.writer = newWriter(c.uuid, c.rows, c.live, c.versions, c.log)
	c.writer.changed, c.writer.gateMoved = c.summary.touches.add, c.watchRows
	show := func(f feed) { c.writer.in <- f }
	c.sessions.silentFor, c.sessions.now = 3*cfg.HeartbeatEvery, now
	c.verify = newVerifier(cfg, c.rows, &c.sessions, now, c.log, c.tel)
	from := deps.Synchronizer
	if from == nil {
		from = deps.Store
	}
	c.follower = newFollower(from, deps.Store, cfg.TailEvery, c.rows, show, c.log)
	c.follower.stored, c.follower.learned = c.stored, c.verify.learned
	c.pipeline = &pipeline{
		queue: newQueue(cfg.MaxQueue), batch: cfg.MaxBatch, show: show,
		committed: c.follower.committed, unknown: c.follower.now, offer: c.verify.committed, stored: c.stored, tel: c.tel,
		failures: failureLog{log: c.log},
	}
	c.verify.do, c.verify.others, c.verify.upToNow = c.pipeline.do, c.follower.others, c.follower.upToNow
	c.reconcile = newReconciler(c)
	c.nova = &novaWatch{gate: c.gate, rows: c.rows, do: c.pipeline.do, log: c.log}
	c.tel.Watch(c.reading)
	c.keeper = &keeper{
		store: deps.Store, every: cfg.LeaseScan, keep: cfg.JournalKeep, decisionsKeep: cfg.DecisionsKeep, maxDecisions: cfg.MaxDecisions,
		time: &storeTimeWatch{machine: now, log: c.log}, do: c.pipeline.do, stored: c.stored, rows: c.rows, live: c.live, log: c.log,
	}
	return c, nil
}

// Register adds the cell's services to a server.
func (c *Cell) Register(s grpc.ServiceRegistrar) {
	cellv1.RegisterCellSchedulerServer(s, &scheduler{Cell: c})
	agentv1.RegisterHostReportsServer(s, &reports{Cell: c})
}

// Ready is closed when the table is loaded and the lane is open. A replica whose store
// can look for hosts itself (shard.HostFilter) answers before that: see cold.go.
func (c *Cell) Ready() <-chan struct{} { return c.ready }

// Run opens a lane, loads the shard and serves until ctx ends or a part of it
// fails. The transaction in flight is finished, streams of agents end, and all
// goroutines have ended when it returns. It runs once.
func (c *Cell) Run(ctx context.Context) error {
	var written sync.WaitGroup
	written.Go(c.writer.run)
	err := c.serve(ctx)
	c.stop.Do(func() { close(c.stopping) })
	c.cold.end()
	close(c.writer.in)
	written.Wait()
	return err
}

// serve runs everything that feeds the writer. Claims are committed from when the lane
// is open; what reads the table, or what others write, begins when that is loaded.
func (c *Cell) serve(ctx context.Context) error {
	start := time.Now()
	lane, err := c.store.OpenLane(ctx, c.cfg.Replica)
	if err != nil {
		return c.unloaded(ctx, fmt.Errorf("open a lane: %w", err))
	}
	c.follower.opened(lane.ID())
	c.versions.Born(fmt.Sprintf("%s-%d", lane.ID().Replica, lane.ID().Incarnation))
	c.pipeline.lane = lane
	c.readGate(ctx, lane)

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.pipeline.run(ctx) })
	g.Go(func() error { return c.sweep(ctx) })
	g.Go(func() error { return c.keeper.leases(ctx) })
	g.Go(func() error { return c.keeper.maintenances(ctx) })
	g.Go(func() error { return c.nova.run(ctx) })
	g.Go(func() error { return c.keeper.journal(ctx) })
	g.Go(func() error { return c.keeper.decisions(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		c.stop.Do(func() { close(c.stopping) })
		return nil
	})
	close(c.open) // before ready is
	g.Go(func() error {
		if err := c.follower.begin(ctx); err != nil {
			return c.unloaded(ctx, fmt.Errorf("load the shard: %w", err))
		}
		g.Go(func() error { return c.follower.run(ctx) })
		g.Go(func() error { return c.verify.run(ctx) })
		g.Go(func() error { return c.verify.write(ctx) })
		g.Go(func() error { return c.verify.recheck(ctx) })
		g.Go(func() error {
			return c.live.run(ctx, func(ctx context.Context) {
				c.watchRows()
				c.outages.tell(ctx)
			})
		})
		g.Go(func() error { return c.keeper.silences(ctx) })
		g.Go(func() error { return c.reconcile.run(ctx) })
		// What others wrote since the moment that was read is in what was answered so far.
		for c.follower.caughtUp(ctx) != nil {
			if ctx.Err() != nil {
				return nil
			}
		}
		close(c.ready)
		c.log.Info("cell is ready", "hosts", c.versions.Current().Len(), "lane", lane.ID().Incarnation, "took", time.Since(start), "cold_queries", c.cold.answered())
		return nil
	})
	return g.Wait()
}

// readGate asks the shard for the gate, so that requests can be answered before the
// table is loaded. When that fails, what is loaded says it.
func (c *Cell) readGate(ctx context.Context, lane shard.Lane) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	// No row has this revision: it is refused with the row that there is.
	a, err := lane.Apply(ctx, []shard.Op{{MoveGate: &shard.MoveGate{Revision: -1, State: shard.GateNative}}})
	if err != nil || len(a.Outcomes) != 1 {
		c.log.Warn("the gate could not be read at the start", "err", err)
		return
	}
	c.follower.knowGate(a.Outcomes[0].Gate)
	<-c.follower.gateKnown
}

// unloaded gives the error of a start that did not come to its end: none when it was
// asked to stop, unless the store is broken.
func (c *Cell) unloaded(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, shard.ErrBroken) {
		return err
	}
	c.log.Info("cell was stopped while it loaded its shard")
	return nil
}

// sweep lets go of versions that nobody may ask for any more while nothing new
// is written.
func (c *Cell) sweep(ctx context.Context) error {
	tick := time.NewTicker(max(c.cfg.PinFor/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			c.versions.Sweep()
		}
	}
}

// serving is nil when requests can be answered, if only from the shard.
func (c *Cell) serving() error {
	select {
	case <-c.open:
		if c.loading() && !c.cold.serves() {
			return errLoading()
		}
		return c.running()
	default:
		return cmp.Or(c.running(), errLoading())
	}
}

// loaded is nil when requests can be answered that need the whole table.
func (c *Cell) loaded() error {
	if err := c.running(); err != nil || !c.loading() {
		return err
	}
	return errLoading()
}

// loading reports whether the table is not there yet.
func (c *Cell) loading() bool {
	select {
	case <-c.ready:
		return false
	default:
		return true
	}
}

func (c *Cell) running() error {
	select {
	case <-c.stopping:
		return errStopping()
	default:
		return nil
	}
}

func errLoading() error {
	return fault.New(fault.CellUnavailable, "the cell's replica is loading its shard")
}

// placing is nil when instances can be placed here: requests can be answered, and
// the store does not fail.
func (c *Cell) placing() error {
	if err := c.serving(); err != nil {
		return err
	}
	return c.stored.failing()
}

// scheduler serves gateways, reports serves agents.
type scheduler struct {
	cellv1.UnimplementedCellSchedulerServer
	*Cell
}

type reports struct {
	agentv1.UnimplementedHostReportsServer
	*Cell
}
