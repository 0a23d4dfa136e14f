package cellclient

import (
	"context"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"
)

// Watch probes all replicas until ctx ends, which also refreshes the summaries. It calls first once every replica has
// been probed once, and answered after each answer of a cell.
func (cs *Cells) Watch(ctx context.Context, first func(), answered func(context.Context, *Cell)) {
	var all, asked sync.WaitGroup
	for _, c := range cs.All {
		for _, r := range c.Replicas {
			asked.Add(1)
			all.Go(func() { cs.watchReplica(ctx, r, asked.Done, answered) })
		}
	}
	asked.Wait()
	first()
	all.Wait()
}

// watchReplica probes one replica repeatedly: every SummaryEvery while it is well, every ProbeEvery while it is in
// doubt or loads its table. While its breaker is open, it probes as soon as the breaker admits a probe.
func (cs *Cells) watchReplica(ctx context.Context, r *Replica, first func(), answered func(context.Context, *Cell)) {
	due := time.NewTimer(0)
	defer due.Stop()
	var began time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.breaker.trouble:
			if first == nil {
				due.Reset(r.breaker.nextProbe(began, r.pace()))
			}
			continue
		case <-due.C:
		}
		began = time.Now()
		r.watched.Store(cs.now().UnixNano())
		cs.probe(ctx, r, answered)
		if first != nil {
			first()
			first = nil
		}
		due.Reset(r.breaker.nextProbe(began, r.pace()))
	}
}

// pace is the interval of probes while the replica is well; shorter while it loads its table,
// since that soon ends.
func (r *Replica) pace() time.Duration {
	if r.loading.Load() {
		return min(SummaryEvery, r.breaker.cfg.ProbeEvery)
	}
	return SummaryEvery
}

// probe reads a replica's summary within the probe's budget. While the breaker admits no
// call, probe makes the connection reconnect, so that gRPC's own backoff does not add to the
// breaker's.
func (cs *Cells) probe(ctx context.Context, r *Replica, answered func(context.Context, *Cell)) {
	p, err := r.breaker.enterProbe()
	if err != nil {
		r.conn.ResetConnectBackoff()
		r.conn.Connect()
		return
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, cs.Breaker.ProbeBudget)
	defer cancel()
	_, err = cs.summaryOf(bounded, r)
	switch {
	case err == nil:
		p.leave(served, nil)
		answered(ctx, r.cell)
	case ctx.Err() != nil:
		p.leave(excused, err)
	default:
		budget := cs.Breaker.ProbeBudget
		t := timing{took: time.Since(began), budget: budget, fair: budget, given: budget}
		if t.took >= budget {
			err = tooSlow(err, r.cell, budget)
		}
		p.leave(judge(err, t), err)
	}
}

// breakerChanged logs when users' calls stop and resume. Changes between open and half-open are not logged.
func (cs *Cells) breakerChanged(r *Replica, c change) {
	switch {
	case c.from == gobreaker.StateClosed:
		cs.log.Warn("breaker opens: the replica is not asked", "cell", r.cell.Name(), "replica", r.Addr, "error", c.cause)
	case c.to == gobreaker.StateClosed:
		cs.log.Info("breaker closes: the replica is asked again", "cell", r.cell.Name(), "replica", r.Addr, "after", c.after.Round(time.Millisecond))
	}
	r.breakerTelemetry.Moved(c.to)
}
