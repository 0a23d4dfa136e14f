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

// Caller is the cell whose shard is filled. A Caller that is a Lister too is asked
// once by each Importer for hosts of earlier imports whose rows went meanwhile.
type Caller interface {
	ImportHosts(ctx context.Context, in *cellv1.ImportHostsRequest, opts ...grpc.CallOption) (*cellv1.ImportHostsResponse, error)
}

// Lister shows what a shard has.
type Lister interface {
	ListHosts(ctx context.Context, in *cellv1.ListHostsRequest, opts ...grpc.CallOption) (*cellv1.ListHostsResponse, error)
	ListClaims(ctx context.Context, in *cellv1.ListClaimsRequest, opts ...grpc.CallOption) (*cellv1.ListClaimsResponse, error)
}

// Rows gives the rows of instances; a novadb.Reader does.
type Rows interface {
	Instances(ctx context.Context, from novadb.InstancePoint) iter.Seq2[*novadb.InstancePage, error]
}

const (
	// mostBatchHosts is the most hosts of a call that a cell takes; batchBytes bounds the size of
	// a call of more than one.
	mostBatchHosts, batchBytes = 256, 2 << 20
	// againHosts bounds the hosts that a step sends though their rows are those that the cell took.
	againHosts = 256
	// settleFor is how long a row was not written for it to count in the first pass, and for its
	// compute not to be claiming. Passes look back as long (novadb.InstancePoint).
	settleFor = 2 * time.Minute
)

// Config says what an Importer does. Zero fields get the defaults named.
type Config struct {
	// Cell is the cell's name. The boot_id of its imports is made of it.
	Cell string
	// Rows; nil: those of the reader that made the snapshot.
	Rows Rows

	// StepHosts bounds the hosts with other rows than the cell took that a step sends: 4,096.
	// The others wait for the next step.
	StepHosts int
	// BatchHosts bounds those of a call: 256, which is the most that a cell takes.
	BatchHosts int
	// Calls is how many calls a step makes at once: 4.
	Calls int
	// FullEvery is how often all live instances are passed over and all hosts sent
	// again, give or take a fifth: 10 minutes.
	FullEvery time.Duration
	// MaxInstances bounds the instances that are kept: 2,000,000. More are an error.
	MaxInstances int
	// MaxLeftOut bounds Report.LeftOut: 100. The counts are whole.
	MaxLeftOut int
	// Now is the clock of FullEvery; time.Now.
	Now func() time.Time
	// Random gives numbers from 0 to 1, for FullEvery; of math/rand.
	Random func() float64
	// Progress, when set, is called with how far a step is: done of all.
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
