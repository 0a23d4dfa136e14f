package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// handle is the access of one incarnation of a replica to its cell's shard. The connection dies
// with the incarnation, can be slow, and can lose answers. If a newer incarnation of the replica
// has opened a lane, older ones are fenced, as in a database.
type handle struct {
	shard.Store
	cell        *simCell
	replica     string
	n           int // number of the incarnation
	incarnation *incarnation
	paused      *gate

	mu sync.Mutex
	// late is the longest delay of a call or its answer. fail is the probability that a call fails
	// without effect, lose that its answer is lost.
	late       time.Duration
	fail, lose float64
	rng        *rand.Rand
	// read is the position of the last read to the journal's end. shown is a position that the
	// table has certainly reached; see following.
	read, shown shard.Cursor
}

func (h *handle) set(change func(*handle)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// store returns the handle as the cell gets it.
func (h *handle) store() shard.Store {
	return &following{Store: &shardtest.Faulty{Store: h, Before: h.before, After: h.after}, handle: h}
}

func (h *handle) draw() (late time.Duration, fails, loses bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.late > 0 {
		late = time.Duration(h.rng.Int64N(int64(h.late)))
	}
	return late, h.fail > 0 && h.rng.Float64() < h.fail, h.lose > 0 && h.rng.Float64() < h.lose
}

// before is a call's way to the shard.
func (h *handle) before(ctx context.Context, c shardtest.Call) error {
	late, fails, _ := h.draw()
	if err := h.way(ctx, late); err != nil {
		return err
	}
	switch {
	case h.incarnation.over(), fails:
		return shardtest.Unavailable()
	case (c.Name == "Apply" || c.Name == "OpenLane") && h.fenced():
		return fault.Wrap(fault.CellUnavailable, shard.ErrFenced, "replica %s has begun a newer incarnation", h.replica)
	}
	return nil
}

// after applies the faults on the way back of a call that took effect.
func (h *handle) after(ctx context.Context, c shardtest.Call) error {
	late, _, loses := h.draw()
	err := h.way(ctx, late)
	if err == nil && h.incarnation.over() {
		err = shardtest.Unavailable()
	}
	switch {
	case c.Name == "Apply" && (err != nil || loses):
		return shardtest.Unknown()
	case loses:
		return shardtest.Unavailable()
	}
	return err
}

func (h *handle) way(ctx context.Context, late time.Duration) error {
	if late > 0 {
		select {
		case <-time.After(late):
		case <-h.incarnation.dead:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.paused.pass(ctx, h.incarnation)
}

// fenced reports whether a newer incarnation of the replica has opened a lane.
func (h *handle) fenced() bool {
	h.cell.mu.Lock()
	defer h.cell.mu.Unlock()
	return h.cell.incarnations[h.replica] > h.n
}

// OpenLane fences the replica's earlier incarnations.
func (h *handle) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	l, err := h.Store.OpenLane(ctx, replica)
	if err != nil {
		return nil, err
	}
	h.cell.mu.Lock()
	defer h.cell.mu.Unlock()
	h.cell.incarnations[h.replica] = max(h.cell.incarnations[h.replica], h.n)
	return l, nil
}

// Close leaves the shard to the other replicas.
func (h *handle) Close() error { return nil }
