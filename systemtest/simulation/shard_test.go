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

// handle is what one life of a replica has of its cell's shard: a connection that dies
// with it, that is slow, and that loses answers. A lane of a life that another one of the
// replica has followed is fenced, as in a database.
type handle struct {
	shard.Store
	cell    *simCell
	replica string
	n       int // of the replica's lives
	life    *life
	paused  *gate

	mu sync.Mutex
	// late is how late a call and its answer are at most, fail how likely it fails
	// before it is done, lose how likely its answer is lost.
	late       time.Duration
	fail, lose float64
	rng        *rand.Rand
	// read is the position of the last reading of the journal to its end, shown the one
	// that the table has certainly come to; see following.
	read, shown shard.Cursor
}

func (h *handle) set(change func(*handle)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
}

// store is the handle as a cell has it.
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
	case h.life.over(), fails:
		return shardtest.Unavailable()
	case (c.Name == "Apply" || c.Name == "OpenLane") && h.fenced():
		return fault.Wrap(fault.CellUnavailable, shard.ErrFenced, "replica %s has begun a newer life", h.replica)
	}
	return nil
}

// after is the way back of a call that was done.
func (h *handle) after(ctx context.Context, c shardtest.Call) error {
	late, _, loses := h.draw()
	err := h.way(ctx, late)
	if err == nil && h.life.over() {
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
		case <-h.life.dead:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.paused.pass(ctx, h.life)
}

// fenced reports whether a newer life of the replica has opened a lane.
func (h *handle) fenced() bool {
	h.cell.mu.Lock()
	defer h.cell.mu.Unlock()
	return h.cell.lives[h.replica] > h.n
}

// OpenLane fences the lives before.
func (h *handle) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	l, err := h.Store.OpenLane(ctx, replica)
	if err != nil {
		return nil, err
	}
	h.cell.mu.Lock()
	defer h.cell.mu.Unlock()
	h.cell.lives[h.replica] = max(h.cell.lives[h.replica], h.n)
	return l, nil
}

// Close leaves the shard to the other replicas.
func (h *handle) Close() error { return nil }
