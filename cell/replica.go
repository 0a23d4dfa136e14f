package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"cellgate/cell/liveness"
	"cellgate/internal/proposing"
	"cellgate/internal/telemetry"
	"cellgate/shard"
)

// replicaConfig is what cell.Config says of the table and its shard.
type replicaConfig struct {
	CellUUID             string
	ColdHosts            int
	MaxBatch, MaxQueue   int
	SnapshotTTL          time.Duration
	MaxPinned            int
	LeaseScan, TailEvery time.Duration
	JournalKeep          time.Duration
	DecisionsKeep        time.Duration
	MaxDecisions         int
	Store                shard.Store
	Synchronizer         shard.Synchronizer
	Now                  func() time.Time
	Log                  *slog.Logger
	Telemetry            *telemetry.Cell
}

// replicaState is what is known of the shard, and the queue of what is to be written to it:
// what listeners of a replica work with.
type replicaState struct {
	cfg       replicaConfig
	rows      *rows
	versions  *proposing.Versions
	live      *liveness.Tracker
	queue     *queue
	journal   *journal
	writer    *writer
	stored    *storeWatch
	storeTime *storeTimeWatch
	imports   *importAge
	touched   *touchedHosts
	cold      *cold
}

func newReplicaState(cfg replicaConfig, live *liveness.Tracker) *replicaState {
	s := &replicaState{
		cfg: cfg, live: live, rows: newRows(), versions: proposing.NewVersions(cfg.SnapshotTTL, cfg.MaxPinned, cfg.Now),
		queue: newQueue(cfg.MaxQueue, cfg.Telemetry), journal: newJournal(), stored: &storeWatch{now: cfg.Now},
		storeTime: &storeTimeWatch{machine: cfg.Now, log: cfg.Log}, touched: newTouchedHosts(),
	}
	s.rows.stale.Store(true)
	s.cold = newCold(cfg.CellUUID, cfg.ColdHosts, cfg.Store, s.versions, cfg.Now, cfg.Log)
	s.imports = &importAge{rows: s.rows, live: live, store: s.storeTime}
	s.writer = newWriter(cfg.CellUUID, s.rows, live, s.versions, s.imports, s.touched, cfg.Log)
	return s
}

// table keeps a replica's table: it commits through its lane of the shard and follows the
// other lanes.
type table struct {
	*replicaState
	pipeline *pipeline
	follower *follower
	keeper   *keeper
}

func newTable(s *replicaState, l changeListener) *table {
	from := s.cfg.Synchronizer
	if from == nil {
		from = s.cfg.Store
	}
	return &table{
		replicaState: s,
		pipeline:     newPipeline(s.queue, s.cfg.MaxBatch, s.writer, s.journal, l, s.stored, s.cfg.Telemetry, s.cfg.Log),
		follower:     newFollower(s.journal, from, s.cfg.Store, s.cfg.TailEvery, s.rows, s.writer, l, s.stored, s.cfg.Log),
		keeper:       &keeper{store: s.cfg.Store, cfg: s.cfg, queue: s.queue, time: s.storeTime, rows: s.rows, live: s.live, stored: s.stored, log: s.cfg.Log},
	}
}

// writing makes versions of the table until the function that it gives is called.
func (t *table) writing() (end func()) {
	var written sync.WaitGroup
	written.Go(t.writer.run)
	return func() {
		t.cold.end()
		close(t.writer.in)
		written.Wait()
	}
}

// openLane opens the replica's lane, and reads the gate, so that requests can be answered
// before the table is loaded. Where that fails, what is loaded says it.
func (t *table) openLane(ctx context.Context, replica string) (shard.Lane, error) {
	lane, err := t.cfg.Store.OpenLane(ctx, replica)
	if err != nil {
		return nil, fmt.Errorf("open a lane: %w", err)
	}
	t.journal.open(lane.ID())
	t.versions.Born(fmt.Sprintf("%s-%d", lane.ID().Replica, lane.ID().Incarnation))
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	// No row has this revision: it is refused with the row that there is.
	a, err := lane.Apply(ctx, []shard.Op{{MoveGate: &shard.MoveGate{Revision: -1, State: shard.GateNative}}})
	if err != nil || len(a.Outcomes) != 1 {
		t.cfg.Log.Warn("the gate could not be read at the start", "err", err)
		return lane, nil
	}
	t.follower.knowGate(a.Outcomes[0].Gate)
	<-t.follower.gateKnown
	return lane, nil
}

// commit starts what commits through the lane: it needs no loaded table.
func (t *table) commit(ctx context.Context, g *errgroup.Group, lane shard.Lane) {
	g.Go(func() error { return t.pipeline.run(ctx, lane) })
	g.Go(func() error { return t.sweep(ctx) })
	g.Go(func() error { return t.keeper.leases(ctx) })
	g.Go(func() error { return t.keeper.maintenances(ctx) })
	g.Go(func() error { return t.keeper.journal(ctx) })
	g.Go(func() error { return t.keeper.decisions(ctx) })
}

// load loads the shard into the table.
func (t *table) load(ctx context.Context) error {
	if err := t.follower.begin(ctx); err != nil {
		return fmt.Errorf("load the shard: %w", err)
	}
	return nil
}

// follow starts what follows the other lanes, once the table is loaded.
func (t *table) follow(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return t.follower.run(ctx) })
	g.Go(func() error { return t.keeper.silences(ctx) })
}

// sweep lets go of versions that nobody may ask for any more while nothing new
// is written.
func (t *table) sweep(ctx context.Context) error {
	tick := time.NewTicker(max(t.cfg.SnapshotTTL/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			t.versions.Sweep()
		}
	}
}

// isFatal reports whether a store that failed so ends the replica.
func isFatal(err error) bool {
	return errors.Is(err, shard.ErrBroken) || errors.Is(err, shard.ErrFenced)
}
