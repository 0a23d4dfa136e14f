package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"cellgate/internal/telemetry"
)

// watchCells probes all replicas, and keeps the summaries fresh thereby, until
// ctx ends.
func (g *Gateway) watchCells(ctx context.Context) {
	var all, first sync.WaitGroup
	for _, c := range g.cells {
		for _, r := range c.replicas {
			first.Add(1)
			all.Go(func() { g.watch(ctx, r, first.Done) })
		}
	}
	first.Wait()
	for _, c := range g.cells {
		if c.gate != nil {
			<-c.gate.first
		}
	}
	close(g.ready)
	all.Wait()
}

// watch probes one replica again and again: every summaryEvery while it is well,
// every ProbeEvery while it is in doubt or loads its table, and as soon as its breaker lets one probe
// in while it is open.
func (g *Gateway) watch(ctx context.Context, r *replica, first func()) {
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
		r.watched.Store(g.now().UnixNano())
		g.probe(ctx, r)
		if first != nil {
			first()
			first = nil
		}
		due.Reset(r.breaker.nextProbe(began, r.pace()))
	}
}

// pace is how often the replica is probed while it is well. One that loads its table
// is soon done.
func (r *replica) pace() time.Duration {
	if r.loading.Load() {
		return min(summaryEvery, r.breaker.cfg.ProbeEvery)
	}
	return summaryEvery
}

// probe reads a replica's summary within the probe's budget. While the breaker
// lets nothing through it makes the connection try again, so that gRPC's own
// backoff does not add to the breaker's.
func (g *Gateway) probe(ctx context.Context, r *replica) {
	p, err := r.breaker.enterProbe()
	if err != nil {
		r.conn.ResetConnectBackoff()
		r.conn.Connect()
		return
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, g.cfg.Breaker.ProbeBudget)
	defer cancel()
	_, err = g.summaryOf(bounded, r)
	switch {
	case err == nil:
		p.leave(served, nil)
		g.lookAgain(ctx, r.cell)
	case ctx.Err() != nil:
		p.leave(excused, err)
	default:
		budget := g.cfg.Breaker.ProbeBudget
		t := timing{took: time.Since(began), budget: budget, fair: budget, given: budget}
		if t.took >= budget {
			err = tooSlow(err, r.cell, budget)
		}
		p.leave(judge(err, t), err)
	}
}

// breakerChanged logs when users' calls stop and when they go on, and tells who
// wants to know. What happens between, while the replica is sick, is not logged.
func (g *Gateway) breakerChanged(r *replica, c change) {
	switch {
	case c.from == gobreaker.StateClosed:
		g.log.Warn("breaker opens: the replica is not asked", "cell", r.cell.cfg.Name, "replica", r.addr, "error", c.cause)
	case c.to == gobreaker.StateClosed:
		g.log.Info("breaker closes: the replica is asked again", "cell", r.cell.cfg.Name, "replica", r.addr, "after", c.after.Round(time.Millisecond))
	}
	r.told.Moved(telemetry.BreakerState(c.to))
	if g.onBreaker != nil {
		g.onBreaker(r.cell.cfg.Name, r.addr, c.from, c.to)
	}
}
