package shardtest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// step is one operation of a worker.
type step struct {
	op    shard.Op
	claim *held
	// to and amount belong to a swap.
	to     int
	amount int64
	begin  int64
}

type worker struct {
	*window
	apply  Apply
	who    int
	rng    *rand.Rand
	mine   []*held
	number int
}

func (k *worker) run(ctx context.Context) {
	for n := range k.turns {
		if ctx.Err() != nil {
			return
		}
		k.turn(ctx)
		if k.who == 0 && n%4 == 0 {
			k.reads <- struct{}{}
		}
	}
}

// batch chooses operations on distinct claims, and takes those claims off mine.
func (k *worker) batch() []*step {
	var steps []*step
	k.rng.Shuffle(len(k.mine), func(i, j int) { k.mine[i], k.mine[j] = k.mine[j], k.mine[i] })
	for range 1 + k.rng.IntN(k.storm.Batch) {
		dice := k.rng.IntN(20)
		if dice < 9 || len(k.mine) == 0 {
			steps = append(steps, k.claim())
			continue
		}
		h := k.mine[len(k.mine)-1]
		k.mine = k.mine[:len(k.mine)-1]
		st := &step{claim: h}
		switch {
		case dice < 16:
			st.op.Release = h.ref()
		case dice < 18 || h.state == shard.Confirmed:
			st.op.Confirm = h.ref()
		default:
			st.to, st.amount = k.rng.IntN(k.storm.Hosts), 1+k.rng.Int64N(6)
			st.op.Swap = &shard.Swap{
				ClaimID: ClaimID(h.n), ConsumerUUID: h.consumer, HostUUID: HostID(st.to), TTL: shard.MaxClaimTTL,
				Allocations: []shard.Used{{ProviderUUID: HostID(st.to), ResourceClass: Class, Amount: st.amount}},
			}
			if st.to == h.host {
				// A swap to its own host would change nothing.
				st.op = shard.Op{Confirm: h.ref()}
			}
		}
		steps = append(steps, st)
	}
	return steps
}

// contested is the first number of the consumers that several workers claim for.
const contested = 1 << 24

func (k *worker) claim() *step {
	k.number += k.storm.Workers
	h := &held{n: k.number, host: k.rng.IntN(k.storm.Hosts), amount: 1 + k.rng.Int64N(6), state: shard.Pending}
	h.consumer = ConsumerID(h.n)
	if k.rng.IntN(15) == 0 {
		h.consumer = ConsumerID(contested + k.rng.IntN(4))
	}
	c := NewClaim(h.n, h.host, h.amount)
	c.ConsumerUUID, c.TTL = h.consumer, shard.MaxClaimTTL
	return &step{claim: h, op: shard.Op{Claim: c}}
}

// turn sends a batch. If the batch gets no answer, turn sends it again two times in three.
func (k *worker) turn(ctx context.Context) {
	steps := k.batch()
	var ops []shard.Op
	begin := k.now()
	for _, st := range steps {
		st.begin = begin
		ops = append(ops, st.op)
	}
	a, err := k.apply(ctx, ops)
	doubt := fault.KindOf(err) == fault.OutcomeUnknown
	again := doubt && k.rng.IntN(3) > 0
	if again {
		a, err = k.apply(ctx, ops)
	}
	end := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = max(k.last, end)
	k.sums.Operations += len(ops)
	if doubt {
		k.sums.Unknown += len(ops)
	}
	if again {
		k.sums.Repeated += len(ops)
	}
	switch {
	case err != nil && doubt:
		k.open = append(k.open, steps...) // no worker uses their claims again in this window
		return
	case err != nil:
		k.sums.Failed += len(ops)
		for _, st := range steps {
			if st.op.Claim == nil {
				k.mine = append(k.mine, st.claim)
			}
		}
		return
	case len(a.Outcomes) != len(steps):
		k.wrong = append(k.wrong, fmt.Sprintf("%d operations have %d outcomes", len(steps), len(a.Outcomes)))
		return
	}
	for i, st := range steps {
		k.answered(st, a.Outcomes[i], a.Entry, end, again)
		if st.claim.state.Live() && (st.op.Claim == nil || a.Outcomes[i].Refusal == nil) {
			k.mine = append(k.mine, st.claim)
		}
	}
}
