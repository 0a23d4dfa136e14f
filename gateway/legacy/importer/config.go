package importer

import (
	"cmp"
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"cellgate/gateway/legacy/novadb"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Cell is the cell whose shard is filled.
type Cell interface {
	ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, opts ...grpc.CallOption) (*cellv1.ImportHostsResponse, error)
	// FindUnclaimed finds the instances that have no claim in the shard.
	FindUnclaimed(ctx context.Context, in *cellv1.FindUnclaimedRequest, opts ...grpc.CallOption) (*cellv1.FindUnclaimedResponse, error)
	// ListHosts is asked by each Importer once, for hosts of earlier imports, whose rows may have gone meanwhile.
	// ListClaims is only asked to compare.
	ListHosts(ctx context.Context, in *cellv1.ListHostsRequest, opts ...grpc.CallOption) (*cellv1.ListHostsResponse, error)
	ListClaims(ctx context.Context, in *cellv1.ListClaimsRequest, opts ...grpc.CallOption) (*cellv1.ListClaimsResponse, error)
}

// Rows gives the rows of instances; a novadb.Reader does.
type Rows interface {
	Instances(ctx context.Context, from novadb.InstancePoint) iter.Seq2[*novadb.InstancePage, error]
}

const (
	// mostBatchHosts is the most hosts that a cell accepts in a call; batchBytes bounds the size
	// of a call with more than one.
	mostBatchHosts, batchBytes = 256, 2 << 20
	// againHosts bounds the hosts that a step sends although the cell already took these rows.
	againHosts = 256
	// settleFor is how long a row must not have been written to count in a first pass, and after
	// which its compute no longer counts as claiming. Passes look back as long
	// (novadb.InstancePoint).
	settleFor = 2 * time.Minute
)

// Config configures an Importer. Zero fields get the defaults named.
type Config struct {
	// Cell is the cell's name; the boot_id of its imports is derived from it.
	Cell string
	// Rows reads the instances; nil: the reader that made the snapshot does.
	Rows Rows

	// StepHosts bounds the hosts that a step sends because their rows changed: 4,096. The
	// others wait for the next step.
	StepHosts int
	// BatchHosts bounds the hosts of a call: 256, which is the most that a cell accepts.
	BatchHosts int
	// Calls is how many calls a step makes at once: 4.
	Calls int
	// FullEvery is how often a pass reads all live instances and all hosts are sent again,
	// give or take a fifth: 10 minutes.
	FullEvery time.Duration
	// MaxInstances bounds the instances that are kept in memory: 2,000,000. More are an error.
	MaxInstances int
	// MaxLeftOut bounds Report.LeftOut: 100. The counts are whole.
	MaxLeftOut int
	// Now is the clock of FullEvery; time.Now.
	Now func() time.Time
	// Random gives numbers from 0 to 1, to spread FullEvery; math/rand's by default.
	Random func() float64
	// Progress, if set, is called with a step's progress: done of all.
	Progress func(what string, done, all int)
}

func (c Config) withDefaults() Config {
	c.StepHosts = cmp.Or(c.StepHosts, 4096)
	c.BatchHosts = min(cmp.Or(c.BatchHosts, mostBatchHosts), mostBatchHosts)
	c.Calls = cmp.Or(c.Calls, 4)
	c.FullEvery = cmp.Or(c.FullEvery, 10*time.Minute)
	c.MaxInstances = cmp.Or(c.MaxInstances, 2_000_000)
	c.MaxLeftOut = cmp.Or(c.MaxLeftOut, 100)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Progress == nil {
		c.Progress = func(string, int, int) {}
	}
	return c
}
