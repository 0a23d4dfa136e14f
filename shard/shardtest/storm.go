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

// Storm sends random claims, confirms, swaps and releases through failing lanes, and checks what must still hold. It
// runs in windows. The faults are on during a window. After it they are off, and Storm compares the store with what
// the callers were answered.
//
//   - What was acknowledged is there, and what was refused or failed is not. The live
//     claims are exactly those that the callers know of. If an operation got no answer,
//     Storm searches for it once nothing is under way.
//   - Each provider's claims, releases and reads are linearizable.
//   - The journal has no gap, has every acknowledged entry, gives the store's rows, and
//     takes no provider over capacity at any entry.
//   - The rows add up, and a consumer has one claim.
//
// Only one goroutine at a time may use a Storm.
type Storm struct {
	// Look is the store without the faults.
	Look shard.Store
	// Hosts and Workers are how many there are. Batch is the most operations of an Apply, and Ops about how many a
	// window has.
	Hosts, Workers, Batch, Ops int

	seed    uint64
	windows int
	next    int
	live    map[string]*held
	rows    *Rows
	at      shard.Cursor
	Sums    Sums
}

// Sums count what has happened in a storm so far.
type Sums struct {
	Windows int
	// Operations counts those sent: Done, Refused, Failed (nothing was written) or Unknown (their end is not known).
	// Repeated counts the unknown operations that were sent again.
	Operations, Done, Refused, Failed, Unknown, Repeated int
	// Found and Absent count the unknown operations that were looked up in the end.
	Found, Absent int
	// Reads counts the loads of all hosts while workers ran. Longest is the longest history whose linearizability was
	// checked.
	Reads, Longest int
}

// Answered counts the operations whose caller got an answer.
func (s Sums) Answered() int { return s.Done + s.Refused }

// NewStorm makes a storm. The seed decides the operations.
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

// Begin registers the hosts and checks the store.
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

// Apply sends a batch through a lane. If its error is not OUTCOME_UNKNOWN, nothing was written.
type Apply func(ctx context.Context, ops []shard.Op) (shard.Applied, error)

// Window lets the workers run, then calls calm to stop the faults, and returns what is wrong. Once calm has returned,
// nothing may be under way. The error comes from calm or from reading the store.
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
			// A worker's claim numbers equal who, modulo Workers.
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
