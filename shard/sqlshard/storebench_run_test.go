package sqlshard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// benchFits is how many claims an empty host takes.
const benchFits = 50

// storeRun is one run: callers that each have one claim under way, at schedulers.
type storeRun struct {
	setting    storeSetting
	schedulers []*benchScheduler
	// computes are the lanes through which compute hosts write.
	computes chan shard.Lane
	setup    shard.Lane
	workers  sync.WaitGroup
	// filled counts the claims that fill hosts beforehand; hosts those registered.
	filled, hosts int

	number                         atomic.Int64
	batches, refusals, beyondThree atomic.Int64
	conflicts                      func() int64
	took                           time.Duration
	// cpu is the processor time taken by this process and by the database.
	cpu          func() (here, server time.Duration)
	here, server time.Duration
	latencies    []time.Duration
	wrong        int
}

// benchRound is hosts that are empty at first. A run has another one when all are full.
type benchRound struct {
	first, hosts, full int
	index              map[string]int
	// owner is the scheduler that claims on a host go to (rendezvous).
	owner   []int
	taken   []atomic.Int32
	refused []atomic.Bool
	compute []benchHost
	over    atomic.Bool
}

// benchHost is a compute host that claims for itself.
type benchHost struct {
	mu   sync.Mutex
	used int
}

func newStoreRun(ctx context.Context, t *testing.T, s storeSetting, stores []shard.Store) *storeRun {
	run := &storeRun{setting: s, conflicts: func() int64 { return 0 }}
	open := func(i int, name string) shard.Lane {
		l, err := stores[i].OpenLane(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	run.setup = open(0, "setup")
	var swaps atomic.Int64
	for i := range s.schedulers {
		var l shard.Lane = open(i, fmt.Sprintf("scheduler-%d", i))
		if s.strategy == bySwap || s.strategy == bySwaps {
			l = &swapLane{lane: l.(*lane), conflicts: &swaps}
		}
		batch := 256
		if s.strategy == byClaim || s.strategy == bySwap {
			batch = 1
		}
		sched := &benchScheduler{
			number: i, of: s.schedulers, store: stores[i], lane: l, pick: s.pick, partition: s.partition,
			queue: make(chan shardtest.Asked, s.callers), batch: batch,
		}
		run.schedulers = append(run.schedulers, sched)
		run.workers.Go(func() { sched.work(ctx, &run.batches) })
	}
	if s.strategy == byHost {
		run.computes = make(chan shard.Lane, s.callers)
		for i := range s.callers {
			run.computes <- open(i%len(stores), fmt.Sprintf("compute-%d", i))
		}
	}
	run.conflicts = func() int64 {
		n := swaps.Load()
		for _, s := range stores {
			if s, ok := s.(*Store); ok {
				n += s.Counts().Races
			}
		}
		return n
	}
	return run
}

// round registers new hosts, and shows them to the schedulers.
func (run *storeRun) round(ctx context.Context, t *testing.T) *benchRound {
	s := run.setting
	r := &benchRound{
		first: run.hosts, hosts: s.hosts, full: s.full, index: map[string]int{}, owner: make([]int, s.hosts),
		taken: make([]atomic.Int32, s.hosts), refused: make([]atomic.Bool, s.hosts), compute: make([]benchHost, s.hosts),
	}
	run.hosts += s.hosts
	var ops []shard.Op
	apply := func() {
		applied, err := run.setup.Apply(ctx, ops)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range applied.Outcomes {
			if o.Refusal != nil {
				t.Fatal(o.Refusal.Message)
			}
		}
		ops = nil
	}
	for i := range s.hosts {
		p := shardtest.BigHost(r.first + i)
		p.Host.Providers[0].Inventories[0].Total = 2 * benchFits
		r.index[p.Host.UUID] = i
		r.owner[i] = ownerOf(p.Host.UUID, s.schedulers)
		if ops = append(ops, shard.Op{PutHost: p}); len(ops) == 500 {
			apply()
		}
	}
	apply()
	for i := range s.full {
		r.taken[i].Store(benchFits)
		r.compute[i].used = benchFits
		op := shardtest.BigClaim(int(run.number.Add(1)), r.first+i)
		op.Claim.Allocations[0].Amount = 2 * benchFits
		if ops = append(ops, op); len(ops) == 500 {
			apply()
		}
		run.filled++
	}
	if len(ops) > 0 {
		apply()
	}
	for _, sched := range run.schedulers {
		sched.begin(r)
		if err := sched.read(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// measure runs until the time is over, in as many rounds as that needs.
func (run *storeRun) measure(ctx context.Context, t *testing.T, limit time.Duration) {
	lists := make([][]time.Duration, run.setting.callers)
	for run.took < limit && !t.Failed() {
		r := run.round(ctx, t)
		following, stop := context.WithCancel(ctx)
		var followers, callers sync.WaitGroup
		for _, sched := range run.schedulers {
			followers.Go(func() { sched.follow(following, t) })
		}
		here, server := run.cpu()
		began := time.Now()
		end := began.Add(limit - run.took)
		for c := range run.setting.callers {
			callers.Go(func() {
				for !r.over.Load() && time.Now().Before(end) {
					at := time.Now()
					done, err := run.one(ctx, r, c)
					if err != nil {
						t.Error(err)
						r.over.Store(true)
						return
					}
					if done {
						lists[c] = append(lists[c], time.Since(at))
					}
				}
			})
		}
		callers.Wait()
		run.took += time.Since(began)
		hereAfter, serverAfter := run.cpu()
		run.here, run.server = run.here+hereAfter-here, run.server+serverAfter-server
		stop()
		followers.Wait()
		for i := range r.taken {
			if r.refused[i].Load() && r.taken[i].Load() < benchFits {
				run.wrong++
			}
		}
	}
	for _, sched := range run.schedulers {
		close(sched.queue)
	}
	run.workers.Wait()
	run.latencies = slices.Concat(lists...)
	slices.Sort(run.latencies)
}

// one places one claim; false when there is no room anywhere.
func (run *storeRun) one(ctx context.Context, r *benchRound, caller int) (bool, error) {
	sched := run.schedulers[caller%len(run.schedulers)]
	n := int(run.number.Add(1))
	back := make(chan shardtest.Answer, 1)
	var tried []int
	for attempt := 1; ; attempt++ {
		host, ok := sched.choose(tried)
		if !ok {
			r.over.Store(true)
			return false, nil
		}
		op := shardtest.BigClaim(n, r.first+host)
		var o shard.Outcome
		var err error
		switch {
		case run.computes != nil:
			o, err = run.byComputeHost(ctx, r, host, op)
		default:
			to := sched
			if run.setting.partition == rendezvous {
				to = run.schedulers[r.owner[host]]
			}
			to.queue <- shardtest.Asked{Op: op, Answer: back}
			a := <-back
			o, err = a.Outcome, a.Err
		}
		switch {
		case err != nil:
			return false, err
		case o.Refusal == nil:
			r.taken[host].Add(1)
			sched.made()
			if attempt > 3 {
				run.beyondThree.Add(1)
			}
			return true, nil
		case o.Refusal.Kind != fault.NoValidHost:
			return false, errors.New(o.Refusal.Message)
		}
		run.refusals.Add(1)
		r.refused[host].Store(true)
		if run.computes != nil {
			// The scheduler hears of it from the shard; the request goes elsewhere.
			tried = append(tried, host)
			continue
		}
		sched.isFull(host)
	}
}

// byComputeHost is the claim as a compute host makes it: one at a time, checked
// against what it knows, written by a transaction of its own.
func (run *storeRun) byComputeHost(ctx context.Context, r *benchRound, host int, op shard.Op) (shard.Outcome, error) {
	h := &r.compute[host]
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == benchFits {
		return shard.Outcome{Refusal: &shard.Refusal{Kind: fault.NoValidHost}}, nil
	}
	l := <-run.computes
	defer func() { run.computes <- l }()
	applied, err := l.Apply(ctx, []shard.Op{op})
	if err != nil {
		return shard.Outcome{}, err
	}
	run.batches.Add(1)
	if applied.Outcomes[0].Refusal == nil {
		h.used++
	}
	return applied.Outcomes[0], nil
}

// storeResult is what a run came to.
type storeResult struct {
	claims                                  int
	took                                    time.Duration
	refusals, conflicts, beyondThree, batch float64
	p50, p99                                time.Duration
	// here and server are the processor time of a claim: callers and schedulers, and the
	// database.
	here, server time.Duration
	// wrong counts hosts that refused a claim that would have fitted, broken what was
	// found wrong at the end.
	wrong, broken int
}

func (run *storeRun) result() *storeResult {
	n := len(run.latencies)
	res := &storeResult{
		claims: n, took: run.took, wrong: run.wrong,
		refusals: float64(run.refusals.Load()), conflicts: float64(run.conflicts()), beyondThree: float64(run.beyondThree.Load()),
		batch: float64(n) / float64(max(1, run.batches.Load())),
	}
	if n > 0 {
		res.here, res.server = run.here/time.Duration(n), run.server/time.Duration(n)
		res.p50, res.p99 = run.latencies[n/2], run.latencies[n*99/100]
	}
	return res
}

func (r *storeResult) perSecond() float64 { return float64(r.claims) / r.took.Seconds() }

func (r *storeResult) String() string {
	return fmt.Sprintf("%.0f claims/s, %.1f a transaction, %d+%d µs, %.0f refusals, %.0f conflicts, p50 %s, p99 %s, wrong %d", r.perSecond(), r.batch,
		r.here.Microseconds(), r.server.Microseconds(), r.refusals, r.conflicts,
		r.p50.Round(10*time.Microsecond), r.p99.Round(10*time.Microsecond), r.wrong+r.broken)
}
