package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/legacy"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/schedule"
)

// LegacyConfig says that a cell is under upgrade from Nova's own tables.
type LegacyConfig struct {
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

// Legacy are the parts that answer for a cell from Nova's tables.
type Legacy struct {
	// Open opens the cell's databases. It is called again until it succeeds.
	Open func(context.Context) (LegacyReader, error)
	// StandIn answers in the cell's place.
	StandIn StandIn
	// Importer makes what writes the hosts of the tables into the cell; nil: this
	// gateway never does.
	Importer func(HostImporter) Importer
}

// LegacyReader reads a cell's tables; see legacy.Reader.
type LegacyReader interface {
	Load(ctx context.Context, awaited ...schedule.ID) (*legacy.Snapshot, error)
	Refresh(ctx context.Context, since *legacy.Snapshot, awaited ...schedule.ID) (*legacy.Snapshot, error)
	Close() error
}

// StandIn answers queries from a cell's legacy rows. Safe for concurrent use.
type StandIn interface {
	// Update gives it newer rows, the server's time now, and the claims that the rows
	// may not show yet: those that the cell awaited when it was asked, which was
	// before the rows were read.
	Update(x *legacy.Snapshot, now time.Time, awaited []*cellv1.AwaitedClaim, asked time.Time)
	// Awaits gives the instances for which the rows are to be asked that it gets next, with
	// claims that the cell listed.
	Awaits(listed []*cellv1.AwaitedClaim) []schedule.ID
	// Chose is told of a claim that was made, and lasts until a time; Ended of one that
	// has ended.
	Chose(claim *cellv1.NewClaim, until time.Time)
	Ended(claimID string)
	// Refused is told that the shard has no room on a host for an amount of a class,
	// Rooms what it has left on hosts: for a while no more is proposed.
	Refused(host, class string, amount int64)
	Rooms([]*cellv1.HostRoom)
	// Withheld is told all hosts that operators keep new instances from in the cell.
	Withheld([]*cellv1.WithheldHost)
	// OnlyThere is told the hosts that the shard has, while no others can be imported: others
	// are not proposed, and Absent counts them, until AllThere.
	OnlyThere(uuids []string)
	AllThere()
	Absent() int
	ProposeBatch(context.Context, *cellv1.ProposeBatchRequest) (*cellv1.ProposeBatchResponse, error)
	Summary() *cellv1.GetSummaryResponse
	// Counted gives the uuids of the hosts with claims whose instances the cell has not seen yet.
	Counted() []string
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
	// Offer never blocks. Nil rows: another gateway imports. With instancesOnly no hosts are
	// written, and only those have their instances imported whose agents do not know them.
	Offer(x *legacy.Snapshot, instancesOnly bool)
	// Unclaimed gives the instances of the rows that have no claim in the shard, as a cell
	// is told of them; nil while they are not looked for. It never blocks.
	Unclaimed() *cellv1.UnclaimedInstances
	// ImportHost imports one host now.
	ImportHost(ctx context.Context, x *legacy.Snapshot, host schedule.ID) error
}

func (c LegacyConfig) withDefaults() LegacyConfig {
	setDefault(&c.Refresh, 2*time.Second)
	setDefault(&c.ServiceDownTime, time.Minute)
	return c
}

// gateMaxAge is how long what a cell said of its gate is gone by, while that is not
// NATIVE: a NATIVE cell says itself when it is not any more.
func (c LegacyConfig) gateMaxAge() time.Duration { return max(10*time.Second, 5*c.Refresh) }

// rowsMaxAge is how long rows are answered from. It is so short that no service that
// was up is taken for down because nobody read its heartbeats.
func (c LegacyConfig) rowsMaxAge() time.Duration {
	return min(max(15*time.Second, 3*c.Refresh), c.ServiceDownTime/2)
}
