package cellclient

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"cellgate/internal/telemetry"
)

// Config bounds the calls to cells.
type Config struct {
	// ProposeBudget bounds a cell's answer to one round of a merge, ClaimBudget its answer to a claim, a
	// read or a release.
	ProposeBudget, ClaimBudget time.Duration
	// Breaker configures the breaker of each replica.
	Breaker BreakerConfig
}

// Deps are the parts that cells are given.
type Deps struct {
	// Dial makes a connection as rpc.Dial does: lazily, with errors decoded to *fault.Error.
	Dial func(target string) (*grpc.ClientConn, error)
	Log  *slog.Logger
	Now  func() time.Time
	// Telemetry may be nil.
	Telemetry telemetry.Gateway
}

// Cells are all configured cells. Safe for concurrent use.
type Cells struct {
	// All has them in the order of configuration; it is not changed.
	All []*Cell
	Config
	log *slog.Logger
	now func() time.Time
	tel telemetry.Gateway
	// ctx ends with Close. Tasks are the goroutines that outlive the request that started them: batches of
	// proposals and releases. All are bounded by their own timeouts.
	ctx   context.Context
	end   context.CancelFunc
	Tasks sync.WaitGroup
}

// New makes the cells and their connections. It sends nothing; Watch and the first call do.
func New(list []CellConfig, cfg Config, deps Deps) (*Cells, error) {
	cs := &Cells{Config: cfg, log: deps.Log, now: deps.Now, tel: deps.Telemetry}
	cs.ctx, cs.end = context.WithCancel(context.Background())
	for _, c := range list {
		made, err := newCell(c, deps.Dial, cs)
		if err != nil {
			cs.Close()
			return nil, err
		}
		cs.All = append(cs.All, made)
	}
	return cs, nil
}

// Wait waits for the tasks under way.
func (cs *Cells) Wait() { cs.Tasks.Wait() }

// Close ends what is under way and closes the connections.
func (cs *Cells) Close() {
	cs.end()
	for _, c := range cs.All {
		c.close()
	}
}

// BackgroundBudget bounds a task that outlives its request. A claim that could not be released in that time ends
// with its lease.
const BackgroundBudget = 2 * time.Second

// Background runs a task that the request does not wait for, with the request's values, but not its deadline or
// cancellation. Wait waits for it.
func (cs *Cells) Background(ctx context.Context, task func(context.Context)) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), BackgroundBudget)
	cs.Tasks.Go(func() {
		defer cancel()
		task(bounded)
	})
}

// CellConfig is one cell.
type CellConfig struct {
	// Name and UUID are the cell's own; a cell that answers with others is not used. If UUID
	// is empty, the cell gives it.
	Name string
	UUID string
	// Replicas are addresses, host:port. Claims go to their host's owner among the replicas,
	// proposals to any replica, and calls without an owner to the first replica that is not
	// in doubt.
	Replicas []string
	// Disabled: no new instance is placed there. Its claims and hosts are still read,
	// confirmed and released.
	Disabled bool
}
