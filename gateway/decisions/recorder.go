package decisions

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// KeeperOf gives the cell that keeps a decision, by its id; nil when none is
// configured.
func (r *Recorder) KeeperOf(id string) *cellclient.Cell {
	name, _ := splitDecision(id)
	i := slices.IndexFunc(r.cells.All, func(c *cellclient.Cell) bool { return c.Name() == name })
	if i < 0 {
		return nil
	}
	return r.cells.All[i]
}

// splitDecision gives the cell and the ulid of a decision_id.
func splitDecision(id string) (cell, ulid string) {
	i := strings.LastIndexByte(id, '.')
	if i < 0 {
		return "", id
	}
	return id[:i], id[i+1:]
}

// cutDown makes a decision of most bytes at most, by leaving out what can be spared
// soonest; its message says what. What it shares with an answer is not touched. It
// gives how many bytes the decision has.
func cutDown(d *cellgatev1.Decision, most int) int {
	const without = "cut down to what is kept: without "
	cuts := []struct {
		what string
		do   func()
	}{
		{"alternates", func() { eachDestination(d, func(x *cellgatev1.Destinations) { x.Alternates = nil }) }},
		{"alternates and allocation requests", func() {
			eachDestination(d, func(x *cellgatev1.Destinations) {
				x.Selected = proto.CloneOf(x.GetSelected())
				x.Selected.AllocationRequest, x.Selected.Limits = "", nil
			})
		}},
		{"destinations, counts of rejects and ignored fields", func() {
			d.Destinations, d.NoValidHost, d.IgnoredFields, d.Cells, d.RejectedClaims = nil, nil, nil, nil, nil
		}},
	}
	note := d.GetMessage()
	for _, cut := range cuts {
		if size := proto.Size(d); size <= most {
			return size
		}
		cut.do()
		d.Message = note
		if note != "" {
			d.Message += "; "
		}
		d.Message += without + cut.what
	}
	if len(d.GetMessage()) > most/2 {
		d.Message = strings.ToValidUTF8(d.GetMessage()[:most/2], "")
	}
	return proto.Size(d)
}

// eachDestination replaces each destination by a copy that is changed.
func eachDestination(d *cellgatev1.Decision, change func(*cellgatev1.Destinations)) {
	out := make([]*cellgatev1.Destinations, len(d.GetDestinations()))
	for i, x := range d.GetDestinations() {
		out[i] = &cellgatev1.Destinations{InstanceUuid: x.GetInstanceUuid(), Selected: x.GetSelected(), Alternates: x.GetAlternates()}
		change(out[i])
	}
	d.Destinations = out
}

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
	// decisionRetry is how long a lane waits after its cell could not take a batch.
	decisionRetry = time.Second
	// decisionDrain is how long what waits is written at the end.
	decisionDrain = 2 * time.Second
	// lossEvery is how often it is logged, at most, that a cell loses decisions.
	lossEvery = 30 * time.Second
)

// Counts says what became of decisions since the start.
type Counts struct {
	// Written: a cell has taken them.
	Written int64
	// Dropped: too many waited. Failed: the cell did not take them until the gateway
	// ended or others needed their room, or refused them. Nowhere: no cell answered
	// the request.
	Dropped, Failed, Nowhere int64
}

// Recorder writes decisions into the cells that keep them, after the answer and
// best effort: what waits is bounded, what cannot be written is counted, and
// nobody waits for it. A cell that is slow holds up its own only. What a cell could
// not take waits for it and is sent again, until its room is needed: then those go
// that have waited for such a cell, the oldest first, before any new one does.
type Recorder struct {
	cells  *cellclient.Cells
	budget time.Duration
	most   int
	log    *slog.Logger
	losses *throttle.Log
	tel    *telemetry.Gateway
	// closing is closed when no more come.
	closing chan struct{}
	queues  map[*cellclient.Cell]*queue

	mu      sync.Mutex
	waiting int
	bytes   int
	counts  Counts
}

// queue is what waits for one cell, the oldest first.
type queue struct {
	cell  string
	queue []*cellgatev1.Decision
	// stuck: the cell could not take what it was sent last.
	stuck bool
	// wake has an entry when something waits.
	wake chan struct{}
}

// New makes the recorder of a gateway's decisions; most of them may wait, and budget is what a cell has to
// take some.
func New(cells *cellclient.Cells, most int, budget time.Duration, log *slog.Logger, now func() time.Time, tel *telemetry.Gateway) *Recorder {
	r := &Recorder{
		cells: cells, budget: budget, most: most, log: log, losses: throttle.New(log, now, lossEvery), tel: tel,
		closing: make(chan struct{}), queues: make(map[*cellclient.Cell]*queue, len(cells.All)),
	}
	for _, c := range cells.All {
		r.queues[c] = &queue{cell: c.Name(), wake: make(chan struct{}, 1)}
	}
	return r
}

// Put hands a decision over to be written in a cell; nil when none can keep it. It
// never waits. The decision's parts must not be changed any more.
func (r *Recorder) Put(c *cellclient.Cell, d *cellgatev1.Decision) {
	lane := r.queues[c]
	if lane == nil {
		r.lost("", 1, &r.counts.Nowhere, "no cell answered")
		return
	}
	size := cutDown(d, maxDecisionBytes)
	r.mu.Lock()
	lost := r.makeRoom(1, size)
	full := r.full(1, size)
	if !full {
		r.waiting, r.bytes = r.waiting+1, r.bytes+size
		lane.queue = append(lane.queue, d)
	}
	r.mu.Unlock()
	for stuck, n := range lost {
		r.failed(stuck, n)
	}
	if full {
		r.lost(lane.cell, 1, &r.counts.Dropped, "too many wait")
		return
	}
	select {
	case lane.wake <- struct{}{}:
	default:
	}
}

// Start starts a writer a cell. stop is called once, when no more decisions come:
// it writes what waits, for decisionDrain at most, and ends the writers.
func (r *Recorder) Start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for c, lane := range r.queues {
		all.Go(func() { r.write(ctx, c, lane) })
	}
	return func() {
		late := time.AfterFunc(decisionDrain, cancel)
		close(r.closing)
		all.Wait()
		late.Stop()
		cancel()
	}
}

// write writes one cell's decisions until closing, and then what is left.
func (r *Recorder) write(ctx context.Context, c *cellclient.Cell, lane *queue) {
	open := true
	for {
		if open {
			select {
			case <-lane.wake:
				open = r.wait(decisionLinger)
			case <-r.closing:
				open = false
			}
		}
		for batch := r.nextBatch(lane); len(batch) > 0; batch = r.nextBatch(lane) {
			open = r.send(ctx, c, lane, batch, open)
		}
		if !open {
			return
		}
	}
}

// send has a cell take a batch; it gives open, or false once no more come. A cell
// takes all of a batch or none: one that it refuses is sent again in halves, so that
// a decision which it cannot keep is lost alone.
func (r *Recorder) send(ctx context.Context, c *cellclient.Cell, lane *queue, batch []*cellgatev1.Decision, open bool) bool {
	_, err := cellclient.Call(ctx, c, r.budget, &cellv1.PutDecisionsRequest{Decisions: batch}, cellv1.CellSchedulerClient.PutDecisions)
	n := len(batch)
	if err == nil {
		r.setStuck(lane, false)
		r.written(lane, int64(n))
		return open
	}
	r.log.Debug("decisions not written", "cell", c.Name(), "decisions", n, "error", err)
	switch {
	case n > 1 && fault.KindOf(err) == fault.InvalidRequest:
		open = r.send(ctx, c, lane, batch[:n/2], open)
		return r.send(ctx, c, lane, batch[n/2:], open)
	case open && mayTakeLater(err):
		r.failed(lane, r.putBack(lane, batch))
		return r.wait(decisionRetry)
	}
	r.failed(lane, int64(n))
	return open
}

// mayTakeLater reports whether the cell that gave an error may take the same
// decisions another time. One that took them already writes them again as they are.
func mayTakeLater(err error) bool {
	return cellclient.IsInconclusive(err) && fault.KindOf(err) != fault.Internal
}

// wait waits for more decisions, or for a cell to recover; false when no more come.
func (r *Recorder) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.closing:
		return false
	}
}

// full reports whether there is no room for n more decisions of size bytes. The
// caller holds r.mu.
func (r *Recorder) full(n, size int) bool {
	return r.waiting+n > r.most || r.bytes+size > maxWaitingBytes
}

// makeRoom drops what waits for stuck cells, of the longest such queue and the oldest
// first, until n decisions of size bytes fit, and says how many it dropped of which. The
// caller holds r.mu.
func (r *Recorder) makeRoom(n, size int) (lost map[*queue]int64) {
	for r.full(n, size) {
		var longest *queue
		for _, lane := range r.queues {
			if lane.stuck && len(lane.queue) > 0 && (longest == nil || len(lane.queue) > len(longest.queue)) {
				longest = lane
			}
		}
		if longest == nil {
			return lost
		}
		r.waiting, r.bytes = r.waiting-1, r.bytes-proto.Size(longest.queue[0])
		longest.queue = longest.queue[1:]
		if lost == nil {
			lost = map[*queue]int64{}
		}
		lost[longest]++
	}
	return lost
}

// putBack has a batch wait again, before what waits for its cell already, as far as
// there is room, and says how many of its oldest there was none for.
func (r *Recorder) putBack(lane *queue, batch []*cellgatev1.Decision) (lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lane.stuck = true
	from := len(batch)
	for from > 0 && !r.full(1, proto.Size(batch[from-1])) {
		from--
		r.waiting, r.bytes = r.waiting+1, r.bytes+proto.Size(batch[from])
	}
	lane.queue = append(batch[from:len(batch):len(batch)], lane.queue...)
	return int64(from)
}

func (r *Recorder) setStuck(lane *queue, stuck bool) {
	r.mu.Lock()
	lane.stuck = stuck
	r.mu.Unlock()
}

// failed counts n decisions that their cell did not take.
func (r *Recorder) failed(lane *queue, n int64) {
	if n > 0 {
		r.lost(lane.cell, n, &r.counts.Failed, "the cell did not take them")
	}
}

// nextBatch takes the oldest of what waits, as much as one call carries.
func (r *Recorder) nextBatch(lane *queue) []*cellgatev1.Decision {
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

// written counts n decisions that their cell took.
func (r *Recorder) written(lane *queue, n int64) {
	r.mu.Lock()
	r.counts.Written += n
	r.mu.Unlock()
	for range n {
		r.tel.Decided(true)
	}
}

// lost counts n decisions, in one of r.counts, and logs them.
func (r *Recorder) lost(cell string, n int64, of *int64, why string) {
	r.mu.Lock()
	*of += n
	r.mu.Unlock()
	for range n {
		r.tel.Decided(false)
	}
	r.losses.Warn(context.Background(), cell, int(n), "decisions lost", "cell", cell, "reason", why)
}

// Counts says what became of decisions.
func (r *Recorder) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}
