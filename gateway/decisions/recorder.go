package decisions

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"google.golang.org/protobuf/proto"

	"cellgate/gateway/cellclient"
	"cellgate/internal/fault"
	"cellgate/internal/rpc"
	"cellgate/internal/telemetry"
	"cellgate/internal/throttle"
	"cellgate/internal/wire"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// KeeperOf gives the cell that keeps a decision, by the decision's id; nil if that cell is
// not configured.
func (r *Recorder) KeeperOf(id string) *cellclient.Cell {
	name, _ := splitDecision(id)
	return r.cells.Named(name)
}

// splitDecision gives the cell and the ulid of a decision_id.
func splitDecision(id string) (cell, text string) {
	i := strings.LastIndexByte(id, '.')
	if i < 0 {
		return "", id
	}
	return id[:i], id[i+1:]
}

// TimeOf gives the time in a decision_id, to the millisecond; if the id has none, it gives the argument unless.
func TimeOf(id string, unless time.Time) time.Time {
	_, text := splitDecision(id)
	if of, err := ulid.ParseStrict(text); err == nil {
		return ulid.Time(of.Time())
	}
	return unless
}

// cutDown reduces a decision to at most most bytes. It leaves out the least important parts
// first, and says so in the message. Parts shared with an answer are copied before a change.
func cutDown(d *cellgatev1.Decision, most int) {
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
		if proto.Size(d) <= most {
			return
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
}

// eachDestination replaces each destination by a changed copy.
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
	// maxWaitingBytes bounds the bytes of all decisions that wait.
	maxWaitingBytes = 64 << 20
	// maxDecisionBatch and maxDecisionBatchBytes bound one PutDecisions.
	maxDecisionBatch      = 256
	maxDecisionBatchBytes = rpc.MaxMessageBytes / 2
	// decisionLinger is how long a decision waits for others of its cell.
	decisionLinger = 100 * time.Millisecond
	// decisionRetry is how long a queue waits after its cell failed to take a batch.
	decisionRetry = time.Second
	// decisionDrain bounds the writing of the remaining decisions when the gateway ends.
	decisionDrain = 2 * time.Second
	// lossEvery is the shortest time between two logs that a cell loses decisions.
	lossEvery = 30 * time.Second
)

// Counts counts decisions by outcome since the start.
type Counts struct {
	// Written: a cell has stored them.
	Written int64
	// Dropped: too many waited for their cell. Failed: the cell refused them, or did not take them
	// before the gateway ended. Nowhere: no cell could keep the decision, since none answered the
	// request.
	Dropped, Failed, Nowhere int64
}

// Recorder writes decisions into the cells that keep them, after the answer and best effort:
// queues are bounded, lost decisions are counted, and no request waits. A batch that a cell
// could not take is sent again. Each cell has its own share of the room, in which the newest
// decisions stay. So a cell that takes none does not displace other cells' decisions.
type Recorder struct {
	cells *cellclient.Cells
	// most and mostBytes are each cell's share, in decisions and bytes.
	most, mostBytes int
	log             *slog.Logger
	losses          *throttle.Log
	tel             telemetry.Gateway
	// closing is closed when no more decisions come.
	closing chan struct{}
	queues  map[*cellclient.Cell]*queue

	mu     sync.Mutex
	counts Counts
}

// kept is a queued decision, and its bytes.
type kept struct {
	row   *cellv1.DecisionToKeep
	bytes int
}

// queue has the decisions that wait for one cell, the oldest first. The recorder's mu guards it.
type queue struct {
	cell    string
	waiting []kept
	// sending are the decisions that a call may be writing now.
	sending []kept
	bytes   int
	// wake signals that a decision was queued.
	wake chan struct{}
}

// New makes the recorder of a gateway's decisions. At most most of them may wait.
func New(cells *cellclient.Cells, most int, log *slog.Logger, now func() time.Time, tel telemetry.Gateway) *Recorder {
	n := len(cells.All)
	r := &Recorder{
		cells: cells, most: max(1, most/n), mostBytes: max(maxDecisionBytes, maxWaitingBytes/n), log: log, losses: throttle.New(log, now, lossEvery), tel: tel,
		closing: make(chan struct{}), queues: make(map[*cellclient.Cell]*queue, n),
	}
	for _, c := range cells.All {
		r.queues[c] = &queue{cell: c.Name(), wake: make(chan struct{}, 1)}
	}
	return r
}

// Put queues a decision to be written in cell c; c is nil if no cell can keep it. It never
// blocks. ranking has the weights to keep; nil for none.
func (r *Recorder) Put(c *cellclient.Cell, d *cellgatev1.Decision, ranking *cellv1.Ranking) {
	q := r.queues[c]
	if q == nil {
		r.lost("", 1, &r.counts.Nowhere, "no cell answered")
		return
	}
	cutDown(d, maxDecisionBytes)
	row, err := rowOf(d, ranking)
	if err != nil {
		r.log.Error("a decision cannot be written", "decision", d.GetDecisionId(), "error", err)
		r.lost(q.cell, 1, &r.counts.Failed, "it has no form")
		return
	}
	k := kept{row: row, bytes: proto.Size(row)}
	r.mu.Lock()
	q.waiting = append(q.waiting, k)
	q.bytes += k.bytes
	dropped := r.dropOldest(q)
	r.mu.Unlock()
	r.lost(q.cell, dropped, &r.counts.Dropped, "too many wait")
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// rowOf gives a decision, with its ranking unless that is nil, in the form in which a cell stores it.
func rowOf(d *cellgatev1.Decision, ranking *cellv1.Ranking) (*cellv1.DecisionToKeep, error) {
	body := &cellv1.KeptDecision{Decision: d}
	var err error
	if ranking != nil {
		if body.Ranking, err = proto.Marshal(ranking); err != nil {
			return nil, err
		}
	}
	row := &cellv1.DecisionToKeep{DecisionId: d.GetDecisionId(), DecidedAt: d.GetDecidedAt(), Terms: wire.DecisionTerms(d)}
	row.Body, err = proto.Marshal(body)
	return row, err
}

// dropOldest drops a cell's oldest decisions beyond its share, and gives their number. The caller holds r.mu.
func (r *Recorder) dropOldest(q *queue) (dropped int) {
	for len(q.waiting) > r.most || q.bytes > r.mostBytes {
		q.bytes -= q.waiting[0].bytes
		q.waiting = q.waiting[1:]
		dropped++
	}
	return dropped
}

// Start starts a writer for each cell. stop must be called once, when no more decisions come.
// It writes the remaining ones, for at most decisionDrain, and ends the writers.
func (r *Recorder) Start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for c, q := range r.queues {
		all.Go(func() { r.write(ctx, c, q) })
	}
	return func() {
		late := time.AfterFunc(decisionDrain, cancel)
		close(r.closing)
		all.Wait()
		late.Stop()
		cancel()
	}
}

// write writes one cell's decisions until closing is closed, and then the remaining ones.
func (r *Recorder) write(ctx context.Context, c *cellclient.Cell, q *queue) {
	open := true
	for {
		if open {
			select {
			case <-q.wake:
				open = r.wait(decisionLinger)
			case <-r.closing:
				open = false
			}
		}
		for batch := r.nextBatch(q); len(batch) > 0; batch = r.nextBatch(q) {
			open = r.send(ctx, c, q, batch, open)
		}
		if !open {
			return
		}
	}
}

// send sends a batch to a cell. It gives open, or false once no more decisions come. A cell
// takes all of a batch or none. If it refuses a batch, send repeats it in halves, so that
// only a decision that the cell cannot keep is lost.
func (r *Recorder) send(ctx context.Context, c *cellclient.Cell, q *queue, batch []kept, open bool) bool {
	req := &cellv1.PutDecisionsRequest{}
	for _, k := range batch {
		req.Decisions = append(req.Decisions, k.row)
	}
	_, err := cellclient.Call(ctx, c, r.cells.ClaimBudget, req, cellv1.CellSchedulerClient.PutDecisions)
	n := len(batch)
	if err == nil {
		r.written(n)
		return open
	}
	r.log.Debug("decisions not written", "cell", c.Name(), "decisions", n, "error", err)
	switch {
	case n > 1 && fault.KindOf(err) == fault.InvalidRequest:
		open = r.send(ctx, c, q, batch[:n/2], open)
		return r.send(ctx, c, q, batch[n/2:], open)
	case open && mayTakeLater(err):
		r.putBack(q, batch)
		return r.wait(decisionRetry)
	}
	r.lost(q.cell, n, &r.counts.Failed, "the cell did not take them")
	return open
}

// mayTakeLater reports whether the cell that gave an error may take the same decisions later.
// If it took them already, writing them again changes nothing.
func mayTakeLater(err error) bool {
	return cellclient.IsInconclusive(err) && fault.KindOf(err) != fault.Internal
}

// wait waits for d; false if no more decisions come.
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

// putBack queues a batch again, before the other decisions of its cell.
func (r *Recorder) putBack(q *queue, batch []kept) {
	r.mu.Lock()
	q.waiting = append(batch[:len(batch):len(batch)], q.waiting...)
	for _, k := range batch {
		q.bytes += k.bytes
	}
	dropped := r.dropOldest(q)
	r.mu.Unlock()
	r.lost(q.cell, dropped, &r.counts.Dropped, "too many wait")
}

// find gives a decision that is queued or being written for a cell; nil for none.
func (r *Recorder) find(c *cellclient.Cell, id string) *cellv1.DecisionToKeep {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range [][]kept{r.queues[c].waiting, r.queues[c].sending} {
		for _, k := range list {
			if k.row.GetDecisionId() == id {
				return k.row
			}
		}
	}
	return nil
}

// nextBatch takes the oldest decisions from a queue, as many as one call carries.
func (r *Recorder) nextBatch(q *queue) []kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, size := 0, 0
	for n < len(q.waiting) && n < maxDecisionBatch {
		if n > 0 && size+q.waiting[n].bytes > maxDecisionBatchBytes {
			break
		}
		size += q.waiting[n].bytes
		n++
	}
	batch := q.waiting[:n:n]
	q.sending = batch
	if q.waiting = q.waiting[n:]; len(q.waiting) == 0 {
		q.waiting = nil
	}
	q.bytes -= size
	return batch
}

// written counts n decisions that their cell stored.
func (r *Recorder) written(n int) {
	r.mu.Lock()
	r.counts.Written += int64(n)
	r.mu.Unlock()
	for range n {
		r.tel.Decided(true)
	}
}

// lost counts n decisions, in one of r.counts, and logs them.
func (r *Recorder) lost(cell string, n int, of *int64, why string) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	*of += int64(n)
	r.mu.Unlock()
	for range n {
		r.tel.Decided(false)
	}
	r.losses.Warn(context.Background(), cell, n, "decisions lost", "cell", cell, "reason", why)
}

// Counts gives the counts since the start.
func (r *Recorder) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}
