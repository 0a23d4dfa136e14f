package standin

import (
	"context"
	"crypto/rand"
	"math"
	"runtime"
	"sync"
	"time"

	"cellgate/gateway/legacy"
	"cellgate/internal/fault"
	"cellgate/internal/proposing"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// Config says for which cell, and how. Zero fields get the defaults named.
type Config struct {
	// Cell is the cell's name, and CellUUID its uuid; before the first rows nothing else
	// is known of it.
	Cell, CellUUID string
	// Find gives the rows of these instances that are live; legacy.Reader.Find does. Nil:
	// see the package comment.
	Find func(ctx context.Context, uuids []schedule.ID) ([]legacy.Instance, error)
	// FindFor is how long what Find gave is gone by: 2 s.
	FindFor time.Duration
	// RoomFor is how long what the shard has left of a host is gone by: 2 s.
	RoomFor time.Duration
	// Lag is how far a replica of the cell may be behind what others did: 3 s.
	Lag time.Duration
	// PinFor is how long a version is kept after it was last asked for: 2 s. MaxPinned
	// bounds them: 256.
	PinFor    time.Duration
	MaxPinned int
	// Now is the clock of Update's asked, of Chose's until and of Age; time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	set := func(to *time.Duration, d time.Duration) {
		if *to == 0 {
			*to = d
		}
	}
	set(&c.FindFor, 2*time.Second)
	set(&c.RoomFor, 2*time.Second)
	set(&c.Lag, 3*time.Second)
	set(&c.PinFor, 2*time.Second)
	if c.MaxPinned == 0 {
		c.MaxPinned = 256
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Standin stands in for one cell. Its methods may be called at once.
type Standin struct {
	cfg      Config
	versions *proposing.Versions
	shapes   *proposing.Shapes
	// slots bounds the proposals computed at once.
	slots chan struct{}

	// mu guards what follows, and is held by whoever makes the next table.
	mu sync.Mutex
	// rows are the newest; nil before the first. readAt is when they were read.
	rows   *legacy.Snapshot
	readAt time.Time
	hosts  map[schedule.ID]*host
	// nodes are the hosts of each service host.
	nodes map[string][]schedule.ID
	// updates counts those of rows.
	updates    uint64
	aggregates aggregates
	known      known
	named      named
	summary    summary
	// rooms are the hosts of which the shard said that it has less left than their rows
	// show, at most one a row; lapseAt is when the first of them is too old, zero for none.
	rooms   map[schedule.ID]*room
	lapseAt time.Time
	// withheld are the hosts that operators keep new instances from.
	withheld map[schedule.ID]*cellv1.WithheldHost
	// there are the hosts that the shard has, while others cannot be imported; nil while
	// they can. absent counts the hosts that it lacks.
	there  map[schedule.ID]struct{}
	absent int
}

// New makes one that knows no hosts yet: it answers CELL_UNAVAILABLE until the first
// Update. It has no goroutines, and nothing to close.
func New(cfg Config) *Standin {
	cfg = cfg.withDefaults()
	s := &Standin{
		cfg: cfg, versions: proposing.NewVersions(cfg.PinFor, cfg.MaxPinned, cfg.Now), shapes: proposing.NewShapes(),
		slots: make(chan struct{}, runtime.GOMAXPROCS(0)),
		hosts: map[schedule.ID]*host{}, nodes: map[string][]schedule.ID{}, known: newKnown(), named: newNamed(), rooms: map[schedule.ID]*room{},
	}
	s.versions.Born("rows-" + rand.Text()[:12])
	return s
}

// ProposeBatch answers each query from the newest table, or the version that it names;
// a query that fails does so alone. At most GOMAXPROCS proposals are computed at once.
func (s *Standin) ProposeBatch(ctx context.Context, req *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error) {
	if !s.loaded() {
		return nil, fault.New(fault.CellUnavailable, "the legacy database of cell %s has not been read yet", s.cfg.Cell)
	}
	queries := req.GetQueries()
	unknown := s.lookUp(ctx, queries)
	var newest proposing.Version
	var name string
	newest.Table, name = s.versions.Newest()
	out := make([]*cellv1.Proposal, len(queries))
	err := proposing.Each(ctx, len(queries), cap(s.slots), func(ctx context.Context, i int) error {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-s.slots }()
		if err := ctx.Err(); err != nil {
			return err
		}
		failed := unknown[i]
		if failed == nil {
			failed = s.judgeable(queries[i])
		}
		if failed == nil {
			if out[i], _, failed = s.shapes.Propose(ctx, s.versions, newest, name, queries[i]); failed == nil && out[i].GetPassed() == 0 {
				s.blame(out[i], s.shapes.Request(queries[i]))
			}
		}
		if failed != nil && ctx.Err() != nil {
			return ctx.Err() // Nobody waits: the batch is given up.
		}
		if failed != nil {
			out[i] = &cellv1.Proposal{Failure: proposing.FailureOf(failed)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &cellv1.ProposeBatchResponse{Proposals: out}, nil
}

func (s *Standin) loaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lapse()
	return s.rows != nil
}

// Age is how long ago, by Config.Now, the rows were read; the longest there is before
// the first Update.
func (s *Standin) Age(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows == nil {
		return math.MaxInt64
	}
	return now.Sub(s.readAt)
}

// judgeable refuses what rows cannot tell: what services say of hosts is in the cell.
func (s *Standin) judgeable(q *cellv1.Query) error {
	r, rules := s.shapes.Asked(q)
	reads := ""
	switch {
	case r == nil:
	case r.Expression != nil && r.Expression.ReadsFacts():
		reads = "the request's filter_expression"
	case r.Weigh != nil && r.Weigh.ReadsFacts():
		reads = "the request's weigh_expression"
	case rules.Expression != nil && rules.Expression.ReadsFacts():
		reads = "gateway.filter_expression"
	case rules.Weigh != nil && rules.Weigh.ReadsFacts():
		reads = "gateway.weigh_expression"
	}
	if reads == "" {
		return nil
	}
	return fault.New(fault.CellUnavailable, "cell %s is answered from its legacy database, which has no facts: %s reads them", s.cfg.Cell, reads)
}
