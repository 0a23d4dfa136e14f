package storebench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
)

// Stores are the stores of a run's schedulers, all of one shard.
type Stores struct {
	// Of has a store for each scheduler; an embedded store is the same for all.
	Of []shard.Store
	// OpenSwap opens a lane that compares and swaps; nil if no setting needs it.
	OpenSwap func(ctx context.Context, s shard.Store, name string) (shard.Lane, error)
	// Conflicts returns how many transactions had to run again.
	Conflicts func() int64
}

// runner is the state of one run.
type runner struct {
	Setting
	schedulers []*scheduler
	// computes are the lanes through which compute hosts write.
	computes chan shard.Lane
	setup    shard.Lane
	workers  sync.WaitGroup
	// filled counts the claims that fill hosts beforehand; registered counts the hosts.
	filled, registered int

	number                       atomic.Int64
	batches, refusals, overThree atomic.Int64
	took, cpu                    time.Duration
	latencies                    []time.Duration
	wrong                        int
}

// round is a set of hosts that are empty at first. When all are full, a run begins another round.
type round struct {
	first, hosts int
	index        map[string]int
	// owner is the scheduler that gets the claims on a host (Rendezvous).
	owner   []int
	taken   []atomic.Int32
	refused []atomic.Bool
	compute []computeHost
	over    atomic.Bool
}

// computeHost is a compute host that claims for itself.
type computeHost struct {
	mu   sync.Mutex
	used int
}

// Run makes claims on an empty shard for the time limit, without counting the registration of hosts,
// and checks the resulting rows. It ends early with ctx.
func Run(ctx context.Context, s Setting, on Stores, limit time.Duration) (*Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	run := &runner{Setting: s}
	err := run.open(ctx, on)
	if err == nil {
		err = run.measure(ctx, cancel, limit)
	}
	for _, sched := range run.schedulers {
		close(sched.queue)
	}
	run.workers.Wait()
	if err != nil {
		return nil, err
	}
	n := len(run.latencies)
	res := &Result{
		Setting: s, Seconds: run.took.Seconds(), Claims: n, PerSecond: float64(n) / run.took.Seconds(),
		Refusals: run.refusals.Load(), Conflicts: on.Conflicts(), OverThree: run.overThree.Load(),
		PerTransaction: float64(n) / float64(max(1, run.batches.Load())),
	}
	if n > 0 {
		ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
		res.CPU = float64(run.cpu.Microseconds()) / float64(n)
		res.P50, res.P99 = ms(run.latencies[n/2]), ms(run.latencies[n*99/100])
	}
	res.Problems, err = check(ctx, on.Of[0], n+run.filled)
	res.Wrong = run.wrong + len(res.Problems)
	return res, err
}

// open opens the lanes, and starts the schedulers.
func (run *runner) open(ctx context.Context, on Stores) (err error) {
	if run.setup, err = on.Of[0].OpenLane(ctx, "setup"); err != nil {
		return err
	}
	for i := range run.Schedulers {
		open, batch := on.Of[i].OpenLane, 256
		if run.Swaps() {
			open = func(ctx context.Context, name string) (shard.Lane, error) { return on.OpenSwap(ctx, on.Of[i], name) }
		}
		if run.Claims == LocksSingle || run.Claims == SwapSingle {
			batch = 1
		}
		l, err := open(ctx, fmt.Sprintf("scheduler-%d", i))
		if err != nil {
			return err
		}
		sched := &scheduler{
			number: i, of: run.Schedulers, store: on.Of[i], lane: l, order: run.Order, partition: run.Partition,
			queue: make(chan asked, run.Callers), batch: batch,
		}
		run.schedulers = append(run.schedulers, sched)
		run.workers.Go(func() { sched.work(ctx, &run.batches) })
	}
	if run.Claims != Computes {
		return nil
	}
	run.computes = make(chan shard.Lane, run.Callers)
	for i := range run.Callers {
		l, err := on.Of[i%len(on.Of)].OpenLane(ctx, fmt.Sprintf("compute-%d", i))
		if err != nil {
			return err
		}
		run.computes <- l
	}
	return nil
}

// apply applies operations that must not be refused.
func (run *runner) apply(ctx context.Context, all []shard.Op) error {
	for ops := range slices.Chunk(all, 500) {
		applied, err := run.setup.Apply(ctx, ops)
		if err != nil {
			return err
		}
		for _, o := range applied.Outcomes {
			if o.Refusal != nil {
				return errors.New(o.Refusal.Message)
			}
		}
	}
	return nil
}

// round registers new hosts, and makes them known to the schedulers.
func (run *runner) round(ctx context.Context) (*round, error) {
	r := &round{
		first: run.registered, hosts: run.Hosts, index: map[string]int{}, owner: make([]int, run.Hosts),
		taken: make([]atomic.Int32, run.Hosts), refused: make([]atomic.Bool, run.Hosts), compute: make([]computeHost, run.Hosts),
	}
	var hosts, claims []shard.Op
	for i := range run.Hosts {
		id := hostUUID(r.first + i)
		r.index[id], r.owner[i] = i, ownerOf(id, run.Schedulers)
		hosts = append(hosts, newHost(r.first+i))
	}
	for i := range run.Full {
		r.taken[i].Store(Fits)
		r.compute[i].used = Fits
		claims = append(claims, newClaim(int(run.number.Add(1)), r.first+i, Fits))
	}
	run.registered, run.filled = run.registered+run.Hosts, run.filled+run.Full
	if err := errors.Join(run.apply(ctx, hosts), run.apply(ctx, claims)); err != nil {
		return nil, err
	}
	for _, sched := range run.schedulers {
		sched.begin(r)
		if err := sched.read(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// measure runs as many rounds as it needs to fill the time. fail ends ctx.
func (run *runner) measure(ctx context.Context, fail context.CancelCauseFunc, limit time.Duration) error {
	lists := make([][]time.Duration, run.Callers)
	for run.took < limit {
		r, err := run.round(ctx)
		if err != nil {
			return err
		}
		following, stop := context.WithCancel(ctx)
		var followers, callers sync.WaitGroup
		for _, sched := range run.schedulers {
			followers.Go(func() {
				if err := sched.follow(following); err != nil && following.Err() == nil {
					fail(err)
				}
			})
		}
		cpu, began := cpuTime(), time.Now()
		end := began.Add(limit - run.took)
		for c := range run.Callers {
			callers.Go(func() {
				// Each caller makes at least one claim, however late it starts.
				for more := true; more && !r.over.Load() && ctx.Err() == nil; more = time.Now().Before(end) {
					at := time.Now()
					done, err := run.one(ctx, r, c)
					if err != nil {
						fail(err)
					} else if done {
						lists[c] = append(lists[c], time.Since(at))
					}
				}
			})
		}
		callers.Wait()
		run.took += time.Since(began)
		run.cpu += cpuTime() - cpu
		stop()
		followers.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for i := range r.taken {
			if r.refused[i].Load() && r.taken[i].Load() < Fits {
				run.wrong++
			}
		}
	}
	run.latencies = slices.Concat(lists...)
	slices.Sort(run.latencies)
	return nil
}

// one places one claim; it returns false if there is no room anywhere.
func (run *runner) one(ctx context.Context, r *round, caller int) (bool, error) {
	sched := run.schedulers[caller%len(run.schedulers)]
	n := int(run.number.Add(1))
	back := make(chan answer, 1)
	var tried []int
	for attempt := 1; ; attempt++ {
		host, ok := sched.choose(tried)
		if !ok {
			r.over.Store(true)
			return false, nil
		}
		var a answer
		if op := newClaim(n, r.first+host, 1); run.computes != nil {
			a = run.byComputeHost(ctx, &r.compute[host], op)
		} else {
			to := sched
			if run.Partition == Rendezvous {
				to = run.schedulers[r.owner[host]]
			}
			to.queue <- asked{op: op, answer: back}
			a = <-back
		}
		switch refusal := a.Refusal; {
		case a.err != nil:
			return false, a.err
		case refusal == nil:
			r.taken[host].Add(1)
			sched.made()
			if attempt > 3 {
				run.overThree.Add(1)
			}
			return true, nil
		case refusal.Kind != fault.NoValidHost:
			return false, errors.New(refusal.Message)
		}
		run.refusals.Add(1)
		r.refused[host].Store(true)
		if run.computes != nil {
			// The scheduler reads of this in the shard; the request tries another host.
			tried = append(tried, host)
			continue
		}
		sched.isFull(host)
	}
}

// byComputeHost makes a claim as a compute host does: one at a time, checked against the host's own
// knowledge, and written by a separate transaction.
func (run *runner) byComputeHost(ctx context.Context, h *computeHost, op shard.Op) answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == Fits {
		return answer{Outcome: shard.Outcome{Refusal: &shard.Refusal{Kind: fault.NoValidHost}}}
	}
	l := <-run.computes
	defer func() { run.computes <- l }()
	applied, err := l.Apply(ctx, []shard.Op{op})
	if err != nil {
		return answer{err: err}
	}
	run.batches.Add(1)
	if applied.Outcomes[0].Refusal == nil {
		h.used++
	}
	return answer{Outcome: applied.Outcomes[0]}
}

// cpuTime is the processor time that this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // it fails for arguments that do not exist
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
