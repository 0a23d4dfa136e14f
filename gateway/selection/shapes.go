package selection

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"cellgate/schedule"
)

// maxShapes bounds the shapes that are remembered.
const maxShapes = 4096

// shape names a placement: equal shapes have equal answers on equal tables.
type shape [sha256.Size]byte

// shapeOf hashes a serialized placement. It may differ between two builds of this
// program, never within one.
func shapeOf(placement []byte) shape { return sha256.Sum256(placement) }

// shapes remember, for the most recently used shapes, the last bounds and the contention. An
// outdated bound costs a second round, never exactness.
type shapes struct {
	max int

	mu    sync.Mutex
	byKey map[shape]*list.Element
	// order has the most recently used shape in front.
	order *list.List
}

type knownShape struct {
	key   shape
	known *schedule.GlobalStats
	contention
}

func newShapes(limit int) *shapes {
	return &shapes{max: limit, byKey: map[shape]*list.Element{}, order: list.New()}
}

// get gives the last known statistics of a shape, which are read-only; nil if there are none.
func (s *shapes) get(key shape) *schedule.GlobalStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byKey[key]
	if !ok {
		return nil
	}
	s.order.MoveToFront(e)
	return e.Value.(*knownShape).known
}

// put stores the statistics of a shape. If there are too many shapes, it forgets the least
// recently used one.
func (s *shapes) put(key shape, known schedule.GlobalStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byKey[key]; ok {
		e.Value.(*knownShape).known = &known
		s.order.MoveToFront(e)
		return
	}
	s.byKey[key] = s.order.PushFront(&knownShape{key: key, known: &known})
	if s.order.Len() > s.max {
		last := s.order.Back()
		s.order.Remove(last)
		delete(s.byKey, last.Value.(*knownShape).key)
	}
}

// width is among how many of the best hosts a request of the shape picks; see contention.
func (s *shapes) width(key shape, now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byKey[key]; ok {
		return e.Value.(*knownShape).contention.width(now)
	}
	return 1
}

// recordClaims records the results of claims of the shape.
func (s *shapes) recordClaims(key shape, now time.Time, placed, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.byKey[key]; ok {
		e.Value.(*knownShape).contention.record(now, placed, refused)
	}
}
