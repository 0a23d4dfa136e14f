package selection

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"cellgate/schedule"
)

// maxHints is how many shapes are remembered.
const maxHints = 4096

// shape names a placement: equal shapes have equal answers on equal tables.
type shape [sha256.Size]byte

// shapeOf hashes a serialized placement. It may differ between two builds of this
// program, never within one.
func shapeOf(placement []byte) shape { return sha256.Sum256(placement) }

// hints remember the last bounds of the shapes used most recently, and how contended
// they are. A bound that is out of date costs a second round, never exactness.
type hints struct {
	max int

	mu    sync.Mutex
	byKey map[shape]*list.Element
	// order has the one used last in front.
	order *list.List
}

type hint struct {
	key   shape
	known *schedule.GlobalStats
	contention
}

func newHints(limit int) *hints {
	return &hints{max: limit, byKey: map[shape]*list.Element{}, order: list.New()}
}

// get gives the last knowledge of a shape, to be read only; nil when there is
// none.
func (h *hints) get(key shape) *schedule.GlobalStats {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.byKey[key]
	if !ok {
		return nil
	}
	h.order.MoveToFront(e)
	return e.Value.(*hint).known
}

// put remembers the knowledge of a shape and forgets the shape unused for
// longest when there are too many.
func (h *hints) put(key shape, known schedule.GlobalStats) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byKey[key]; ok {
		e.Value.(*hint).known = &known
		h.order.MoveToFront(e)
		return
	}
	h.byKey[key] = h.order.PushFront(&hint{key: key, known: &known})
	if h.order.Len() > h.max {
		last := h.order.Back()
		h.order.Remove(last)
		delete(h.byKey, last.Value.(*hint).key)
	}
}

// width is among how many of the best hosts a request of the shape picks; see contention.
func (h *hints) width(key shape, now time.Time) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byKey[key]; ok {
		return e.Value.(*hint).contention.width(now)
	}
	return 1
}

// recordClaims tells what became of claims of the shape.
func (h *hints) recordClaims(key shape, now time.Time, placed, refused int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.byKey[key]; ok {
		e.Value.(*hint).contention.record(now, placed, refused)
	}
}
