package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

const (
	// maxDecisionBytes bounds one decision; a larger one is cut down (cutDown).
	maxDecisionBytes = 1 << 20
	// maxWaitingBytes bounds all that wait, besides their number.
	maxWaitingBytes = 64 << 20
	// maxDecisionBatch and maxDecisionBatchBytes bound one PutDecisions.
	maxDecisionBatch      = 256
	maxDecisionBatchBytes = rpc.MaxMessageBytes / 2
	// decisionLinger is how long a decision waits for others of its cell.
	decisionLinger = 100 * time.Millisecond
	// decisionDrain is how long what waits is written at the end.
	decisionDrain = 2 * time.Second
	// lossEvery is how often lost decisions are logged, at most.
	lossEvery = 30 * time.Second
)

// DecisionCounts says what became of decisions since the start.
type DecisionCounts struct {
	// Written: a cell has taken them.
	Written int64
	// Dropped: too many waited. Failed: the cell did not take them. Nowhere: no
	// cell answered the request.
	Dropped, Failed, Nowhere int64
}

// recorder writes decisions into the cells that keep them, after the answer and
// best effort: what waits is bounded, what cannot be written is counted, and
// nobody waits for it. A cell that is slow holds up its own only.
type recorder struct {
	budget time.Duration
	most   int
	log    *slog.Logger
	now    func() time.Time
	tel    *telemetry.Gateway
	// closing is closed when no more come.
	closing chan struct{}
	lanes   map[*cell]*decisionLane

	mu      sync.Mutex
	waiting int
	bytes   int
	counts  DecisionCounts
	// logged are the counts at the time of the last log line.
	logged   DecisionCounts
	loggedAt time.Time
}

// decisionLane is what waits for one cell, the oldest first.
type decisionLane struct {
	queue []*cellgatev1.Decision
	// wake has an entry when something waits.
	wake chan struct{}
}

// newRecorder makes the recorder of a gateway whose cells are there already.
func newRecorder(g *Gateway, most int) *recorder {
	r := &recorder{
		budget: g.cfg.ClaimBudget, most: most, log: g.log, now: g.now, tel: g.tel,
		closing: make(chan struct{}), lanes: make(map[*cell]*decisionLane, len(g.cells)),
	}
	for _, c := range g.cells {
		r.lanes[c] = &decisionLane{wake: make(chan struct{}, 1)}
	}
	return r
}

// put hands a decision over to be written in a cell; nil when none can keep it. It
// never waits. The decision's parts must not be changed any more.
func (r *recorder) put(c *cell, d *cellgatev1.Decision) {
	lane := r.lanes[c]
	if lane == nil {
		r.count(1, false, func(n *DecisionCounts) *int64 { return &n.Nowhere })
		return
	}
	cutDown(d, maxDecisionBytes)
	size := proto.Size(d)
	r.mu.Lock()
	full := r.waiting >= r.most || r.bytes+size > maxWaitingBytes
	if !full {
		r.waiting, r.bytes = r.waiting+1, r.bytes+size
		lane.queue = append(lane.queue, d)
	}
	r.mu.Unlock()
	if full {
		r.count(1, false, func(n *DecisionCounts) *int64 { return &n.Dropped })
		return
	}
	select {
	case lane.wake <- struct{}{}:
	default:
	}
}

// start starts a writer a cell. stop is called once, when no more decisions come:
// it writes what waits, for decisionDrain at most, and ends the writers.
func (r *recorder) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for c, lane := range r.lanes {
		all.Go(func() { r.write(ctx, c, lane) })
	}
	return func() {
		late := time.AfterFunc(decisionDrain, cancel)
		close(r.closing)
		all.Wait()
		late.Stop()
		cancel()
		r.tell(true)
	}
}

// write writes one cell's decisions until closing, and then what is left.
func (r *recorder) write(ctx context.Context, c *cell, lane *decisionLane) {
	open := true
	for {
		if open {
			select {
			case <-lane.wake:
				open = r.linger()
			case <-r.closing:
				open = false
			}
		}
		for batch := r.take(lane); len(batch) > 0; batch = r.take(lane) {
			_, err := call(ctx, c, r.budget, &cellv1.PutDecisionsRequest{Decisions: batch}, cellv1.CellSchedulerClient.PutDecisions)
			n := int64(len(batch))
			if err != nil {
				r.log.Debug("decisions not written", "cell", c.cfg.Name, "decisions", n, "error", err)
				r.count(n, false, func(t *DecisionCounts) *int64 { return &t.Failed })
				continue
			}
			r.count(n, true, func(t *DecisionCounts) *int64 { return &t.Written })
		}
		if !open {
			return
		}
	}
}

// linger waits for more decisions; false when no more come.
func (r *recorder) linger() bool {
	t := time.NewTimer(decisionLinger)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.closing:
		return false
	}
}

// take takes the oldest of what waits, as much as one call carries.
func (r *recorder) take(lane *decisionLane) []*cellgatev1.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, size := 0, 0
	for n < len(lane.queue) && n < maxDecisionBatch {
		bytes := proto.Size(lane.queue[n])
		if n > 0 && size+bytes > maxDecisionBatchBytes {
			break
		}
		n, size = n+1, size+bytes
	}
	batch := lane.queue[:n:n]
	if lane.queue = lane.queue[n:]; len(lane.queue) == 0 {
		lane.queue = nil
	}
	r.waiting, r.bytes = r.waiting-n, r.bytes-size
	return batch
}

// count adds n decisions to one of the counts.
func (r *recorder) count(n int64, written bool, of func(*DecisionCounts) *int64) {
	r.mu.Lock()
	*of(&r.counts) += n
	r.mu.Unlock()
	for range n {
		r.tel.Decided(written)
	}
	r.tell(false)
}

// tell logs what was lost since it last did: once in lossEvery at most, or at the
// end.
func (r *recorder) tell(end bool) {
	r.mu.Lock()
	now := r.now()
	n, was := r.counts, r.logged
	lost := n.Dropped+n.Failed+n.Nowhere > was.Dropped+was.Failed+was.Nowhere
	due := lost && (end || r.loggedAt.IsZero() || now.Sub(r.loggedAt) >= lossEvery)
	if due {
		r.logged, r.loggedAt = n, now
	}
	r.mu.Unlock()
	if due {
		r.log.Warn("decisions lost", "queue_full", n.Dropped-was.Dropped, "not_taken", n.Failed-was.Failed, "no_cell_answered", n.Nowhere-was.Nowhere)
	}
}

// DecisionCounts says what became of decisions.
func (g *Gateway) DecisionCounts() DecisionCounts {
	g.decisions.mu.Lock()
	defer g.decisions.mu.Unlock()
	return g.decisions.counts
}
