package gatewatch

import (
	"cmp"
	"context"
	"time"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Config configures the watch of a cell under upgrade from Nova's own tables.
type Config struct {
	// Refresh is how often the databases and the gate are read (2 s).
	Refresh time.Duration
	// ServiceDownTime is Nova's service_down_time, as the reader has it (60 s).
	ServiceDownTime time.Duration
	// RequiredVersion is the lowest service version with which the gate may leave LEGACY.
	RequiredVersion int
	// Only: the cell's only scheduler is in this process, so its gate is held at LEGACY.
	Only bool
}

// Parts read a cell's Nova tables, and import them.
type Parts struct {
	Config Config
	// Open opens the cell's databases. It is called again until it succeeds.
	Open func(context.Context) (Reader, error)
	// Importer makes the importer of the tables' hosts into the cell of a Gate; nil: this gateway never imports.
	Importer func(*Gate) Importer
}

// Reader reads a cell's tables; see package novadb.
type Reader interface {
	Load(ctx context.Context) (*novadb.Snapshot, error)
	Refresh(ctx context.Context, since *novadb.Snapshot) (*novadb.Snapshot, error)
	Close() error
}

// Importer writes the hosts of a cell's legacy rows into its shard.
type Importer interface {
	// Run imports the rows of the last Offer, until ctx ends.
	Run(ctx context.Context) error
	// Offer sets the rows to import; nil means that another gateway imports. native: the gate is NATIVE. It never
	// blocks.
	Offer(x *novadb.Snapshot, native bool)
	// Age gives how long ago the newest fully imported rows were read; false for none. It
	// never blocks.
	Age() (time.Duration, bool)
	// Imported signals that rows are fully imported, after none were.
	Imported() <-chan struct{}
	// Unclaimed gives the instances of the rows without a claim in the shard, for a report to
	// the cell; nil while they are not known. It never blocks.
	Unclaimed() *cellv1.UnclaimedInstances
}

func (c Config) withDefaults() Config {
	c.Refresh, c.ServiceDownTime = cmp.Or(c.Refresh, 2*time.Second), cmp.Or(c.ServiceDownTime, time.Minute)
	return c
}

// rowsMaxAge is how long rows may be used. It is so short that no service is taken as down
// only because its heartbeats were not read.
func (c Config) rowsMaxAge() time.Duration {
	return min(max(15*time.Second, 3*c.Refresh), c.ServiceDownTime/2)
}

// Only reports whether the cell's only scheduler is in this process; false for a nil gate.
func (w *Gate) Only() bool { return w != nil && w.cfg.Only }
