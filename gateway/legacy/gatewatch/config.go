package gatewatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Config says that a cell is under upgrade from Nova's own tables.
type Config struct {
	// Refresh is how often the databases and the gate are read (2 s).
	Refresh time.Duration
	// ServiceDownTime is that of the reader (60 s).
	ServiceDownTime time.Duration
	// RequiredVersion is the least service version to leave LEGACY with.
	RequiredVersion int
	// Only: the cell has no scheduler but one in this process, so its gate is held at
	// LEGACY.
	Only bool
}

// Parts are the parts that read a cell's tables of Nova, and import them.
type Parts struct {
	Config Config
	// Open opens the cell's databases. It is called again until it succeeds.
	Open func(context.Context) (Reader, error)
	// Importer makes what writes the hosts of the tables into the cell; nil: this
	// gateway never does.
	Importer func(HostImporter) Importer
}

// Reader reads a cell's tables; see package novadb.
type Reader interface {
	Load(ctx context.Context) (*novadb.Snapshot, error)
	Refresh(ctx context.Context, since *novadb.Snapshot) (*novadb.Snapshot, error)
	Close() error
}

// HostImporter is the cell, as an importer calls it.
type HostImporter interface {
	ImportHosts(context.Context, *cellv1.ImportHostsRequest, ...grpc.CallOption) (*cellv1.ImportHostsResponse, error)
	ListHosts(context.Context, *cellv1.ListHostsRequest, ...grpc.CallOption) (*cellv1.ListHostsResponse, error)
	ListClaims(context.Context, *cellv1.ListClaimsRequest, ...grpc.CallOption) (*cellv1.ListClaimsResponse, error)
	FindUnclaimed(context.Context, *cellv1.FindUnclaimedRequest, ...grpc.CallOption) (*cellv1.FindUnclaimedResponse, error)
}

// Importer writes the hosts of a cell's legacy rows into its shard.
type Importer interface {
	// Run imports what Offer gave last, until ctx ends.
	Run(ctx context.Context) error
	// Offer never blocks. Nil rows: another gateway imports. native: the gate is NATIVE.
	Offer(x *novadb.Snapshot, native bool)
	// Age is how long ago rows were read that have all been imported since; false for none. It
	// never blocks.
	Age() (time.Duration, bool)
	// Imported has an element once rows have all been imported after none were.
	Imported() <-chan struct{}
	// Unclaimed gives the instances of the rows that have no claim in the shard, for a report
	// to the cell; nil while they are not known. It never blocks.
	Unclaimed() *cellv1.UnclaimedInstances
}

// Check gives what is wrong with the configuration; nil for nothing.
func (c Config) Check() error {
	switch {
	case c.Refresh < 0 || c.ServiceDownTime < 0 || c.RequiredVersion < 0:
		return errors.New("must not be negative")
	case c.RequiredVersion > math.MaxInt32:
		return fmt.Errorf("the required version is greater than %d", math.MaxInt32)
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Refresh, c.ServiceDownTime = cmp.Or(c.Refresh, 2*time.Second), cmp.Or(c.ServiceDownTime, time.Minute)
	return c
}

// rowsMaxAge is how long rows are gone by. It is so short that no service that
// was up is taken for down because nobody read its heartbeats.
func (c Config) rowsMaxAge() time.Duration {
	return min(max(15*time.Second, 3*c.Refresh), c.ServiceDownTime/2)
}

// Only reports whether the cell has no scheduler but one in this process; false for a nil gate.
func (w *Gate) Only() bool { return w != nil && w.cfg.Only }
