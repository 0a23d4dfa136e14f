package shardtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"cellgate/shard"
)

// Storm is claims, confirms, swaps and releases at random, through lanes that fail,
// and what must hold all the same. It runs in windows: in one the faults are on; after
// it they are off, and everything is checked against what the callers were answered.
//
//   - What was acknowledged is there, what was refused or failed is not, and nothing
//     else is: the live claims are exactly those that the callers know of. What they
//     got no answer to is looked up once nothing is under way.
//   - Each provider's claims, releases and reads are linearizable.
//   - The journal has no gap, has every acknowledged entry, tells the rows that there
//     are, and has no provider over capacity at any entry.
//   - The rows add up, and a consumer has one claim.
//
// One goroutine at a time has a Storm.
type Storm struct {
	// Look is the store, past the faults.
	Look shard.Store
	// Hosts and Workers, each with a lane; Batch is how many operations an Apply has
	// at most, Ops about how many a window has.
	Hosts, Workers, Batch, Ops int

	seed    uint64
	windows int
	next    int
	live    map[string]*held
	rows    *Rows
	at      shard.Cursor
	Sums    Sums
}

// Sums are what happened in a storm so far.
type Sums struct {
	Windows int
	// Operations that were sent: those Done, Refused, Failed with nothing written, and
	// those whose end was Unknown. Repeated are those of the unknown ones that were
	// sent again.
	Operations, Done, Refused, Failed, Unknown, Repeated int
	// Found and Absent are the unknown ones that were looked up in the end.
	Found, Absent int
	// Reads are of all hosts in the middle of it, Longest is the longest history
	// that was checked for linearizability.
	Reads, Longest int
}

// Answered counts operations whose caller got an answer.
func (s Sums) Answered() int { return s.Done + s.Refused }

// NewStorm makes a storm, of which the seed decides the operations.
func NewStorm(look shard.Store, seed uint64) *Storm {
	return &Storm{
		Look: look, Hosts: 12, Workers: 6, Batch: 8, Ops: 1200, seed: seed,
		live: map[string]*held{}, rows: NewRows(), at: shard.Cursor{},
	}
}

// held is a claim that a caller knows of.
type held struct {
	n, host  int
	amount   int64
	consumer string
	state    shard.ClaimState
}

func (h *held) ref() *shard.ClaimRef {
	return &shard.ClaimRef{ClaimID: ClaimID(h.n), ConsumerUUID: h.consumer}
}

// Begin registers the hosts.
func (s *Storm) Begin(ctx context.Context, l shard.Lane) error {
	var ops []shard.Op
	for h := range s.Hosts {
		ops = append(ops, shard.Op{PutHost: NewHost(h, linearCapacity)})
	}
	if _, err := l.Apply(ctx, ops); err != nil {
		return err
	}
	wrong, err := s.check(ctx, nil)
	if err == nil && len(wrong) > 0 {
		err = fmt.Errorf("before the storm: %v", wrong)
	}
	return err
}

// Apply is a lane's. An error of a kind other than OUTCOME_UNKNOWN says that nothing
// was written.
type Apply func(ctx context.Context, ops []shard.Op) (shard.Applied, error)

// Window lets the workers loose, then calms the faults down and says what is wrong.
// After calm nothing is under way any more. The error is one of looking, or calm's.
func (s *Storm) Window(ctx context.Context, lanes []Apply, calm func() error) (wrong []string, err error) {
	w := &window{storm: s, begin: time.Now(), before: make([]int64, s.Hosts)}
	for h := range w.before {
		w.before[h] = s.rows.Usages[HostID(h)].Of(HostID(h), Class)
	}
	shares := make([][]*held, s.Workers)
	for _, h := range slices.SortedFunc(maps.Values(s.live), func(a, b *held) int { return a.n - b.n }) {
		shares[h.n%s.Workers] = append(shares[h.n%s.Workers], h)
	}
	w.turns = max(1, s.Ops/s.Workers/((s.Batch+1)/2))
	w.reads = make(chan struct{}, w.turns)
	var all []*worker
	var workers, reader sync.WaitGroup
	for who := range s.Workers {
		k := &worker{
			window: w, apply: lanes[who%len(lanes)], who: who, mine: shares[who],
			rng: rand.New(rand.NewPCG(s.seed, uint64(s.windows)<<16|uint64(who))),
			// Its claims have the numbers of who, modulo Workers.
			number: s.next - s.next%s.Workers + s.Workers + who,
		}
		all = append(all, k)
		workers.Go(func() { k.run(ctx) })
	}
	reader.Go(func() { w.read(ctx) })
	workers.Wait()
	close(w.reads)
	reader.Wait()
	for _, k := range all {
		s.next = max(s.next, k.number)
	}
	s.windows++
	if err := calm(); err != nil {
		return w.wrong, err
	}
	return s.check(ctx, w)
}
