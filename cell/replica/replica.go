package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"cellgate/cell/liveness"
	"cellgate/cell/proposals"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	"cellgate/shard"
)

// Config is the part of cell.Config that concerns the table and its shard.
type Config struct {
	CellUUID             string
	ColdHosts            int
	MaxBatch, MaxQueue   int
	SnapshotTTL          time.Duration
	LeaseScan, TailEvery time.Duration
	DecisionsKeep        time.Duration
	MaxDecisions         int
	Store                shard.Store
	Synchronizer         shard.Synchronizer
	Now                  func() time.Time
	Log                  *slog.Logger
	Telemetry            telemetry.Cell
}

// maxPinned bounds the versions of the table that are kept besides the newest.
const maxPinned = 256

// State is a replica's knowledge of the shard, and the queue of operations to be written to it.
// Listeners of a replica work with it.
type State struct {
	cfg       Config
	Rows      *Rows
	Versions  *proposals.Versions
	Live      *liveness.Tracker
	Queue     *Queue
	Journal   *Journal
	Writer    *Writer
	Stored    *storeWatch
	StoreTime *storeTimeWatch
	Imports   *importAge
	Cold      *coldSearch
}

// NewState makes a state that knows nothing of the shard yet.
func NewState(cfg Config, live *liveness.Tracker) *State {
	s := &State{
		cfg: cfg, Live: live, Rows: newRows(), Versions: proposals.NewVersions(cfg.SnapshotTTL, maxPinned, cfg.Now),
		Queue: newQueue(cfg.MaxQueue, cfg.Telemetry), Journal: newJournal(), Stored: &storeWatch{now: cfg.Now},
		StoreTime: &storeTimeWatch{Machine: cfg.Now, log: cfg.Log},
	}
	s.Rows.importsStale.Store(true)
	s.Cold = newColdSearch(cfg.CellUUID, cfg.ColdHosts, cfg.Store, s.Versions, cfg.Now, cfg.Log)
	s.Imports = &importAge{rows: s.Rows, live: live, store: s.StoreTime}
	s.Writer = newWriter(cfg.CellUUID, s.Rows, live, s.Versions, s.Imports, cfg.Log)
	return s
}

// Replica maintains a replica's table: it commits through its lane of the shard and follows the other
// lanes.
type Replica struct {
	*State
	pipeline *pipeline
	Follower *follower
	keeper   *keeper
}

// New makes a replica over a state. It calls l with all changes once the table shows them.
func New(s *State, l changeListener) *Replica {
	from := s.cfg.Synchronizer
	if from == nil {
		from = s.cfg.Store
	}
	return &Replica{
		State:    s,
		pipeline: &pipeline{State: s, listener: l, failures: throttle.New(s.cfg.Log, time.Now, 5*time.Second)},
		Follower: &follower{State: s, from: from, listener: l, gateKnown: make(chan struct{})},
		keeper:   &keeper{s},
	}
}

// StartWriter builds versions of the table until the returned function is called.
func (t *Replica) StartWriter() (end func()) {
	var written sync.WaitGroup
	written.Go(t.Writer.run)
	return func() {
		t.Cold.close()
		close(t.Writer.in)
		written.Wait()
	}
}

// OpenLane opens the replica's lane and reads store time and the gate, so that requests can be answered
// before the table is loaded. If reading the gate fails, the load brings it.
func (t *Replica) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	lane, err := t.cfg.Store.OpenLane(ctx, replica)
	if err != nil {
		return nil, fmt.Errorf("open a lane: %w", err)
	}
	t.Journal.open(lane.ID())
	t.Versions.SetIncarnation(fmt.Sprintf("%s-%d", lane.ID().Replica, lane.ID().Incarnation))
	ctx, cancel := context.WithTimeout(ctx, shard.ApplyLimit)
	defer cancel()
	if now, err := t.cfg.Store.Now(ctx); err == nil { // otherwise the keeper compares within a minute
		t.StoreTime.compare(now)
	}
	// No row has this revision, so the shard refuses the operation and returns the current row.
	a, err := lane.Apply(ctx, []shard.Op{{MoveGate: &shard.MoveGate{Revision: -1, State: shard.GateNative}}})
	if err != nil || len(a.Outcomes) != 1 {
		t.cfg.Log.Warn("the gate could not be read at the start", "err", err)
		return lane, nil
	}
	t.Follower.knowGate(a.Outcomes[0].Gate)
	<-t.Follower.gateKnown
	return lane, nil
}

// StartCommitting starts everything that commits through the lane and needs no loaded table.
func (t *Replica) StartCommitting(ctx context.Context, g *errgroup.Group, lane shard.Lane) {
	g.Go(func() error { return t.pipeline.run(ctx, lane) })
	g.Go(func() error {
		return Repeat(ctx, max(t.cfg.SnapshotTTL/2, time.Millisecond), t.cfg.Log, "", func(context.Context) error {
			t.Versions.Sweep() // of versions that expire while nothing new is written
			return nil
		})
	})
	g.Go(func() error { return t.keeper.leases(ctx) })
	g.Go(func() error { return t.keeper.maintenances(ctx) })
	g.Go(func() error { return t.keeper.trim(ctx) })
}

// Load loads the shard into the table.
func (t *Replica) Load(ctx context.Context) error {
	if err := t.Follower.loadAtStart(ctx); err != nil {
		return fmt.Errorf("load the shard: %w", err)
	}
	return nil
}

// StartFollowing starts following the other lanes, once the table is loaded.
func (t *Replica) StartFollowing(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return t.Follower.run(ctx) })
	g.Go(func() error { return t.keeper.silences(ctx) })
}

// isFatal reports whether an error of the store ends the replica.
func isFatal(err error) bool {
	return errors.Is(err, shard.ErrBroken) || errors.Is(err, shard.ErrFenced)
}
