package mirror

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue has the objects to copy, each once. An object that is written again during its copy is copied again.
type queue struct {
	most int
	// more signals that an object was added, overflow that one was left out.
	more, overflow chan struct{}

	mu      sync.Mutex
	waiting []object
	// state has each object that waits or is copied; again: it was written since its copy began.
	state map[object]*queued
}

type queued struct {
	copying, again bool
	// failed is why the last copy failed.
	failed string
}

func newQueue(most int) *queue {
	return &queue{most: most, more: make(chan struct{}, 1), overflow: make(chan struct{}, 1), state: map[object]*queued{}}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // a signal is already pending
	}
}

func (q *queue) add(t object) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s := q.state[t]; s != nil {
		s.again = s.again || s.copying
		return
	}
	if len(q.state) >= q.most {
		wake(q.overflow)
		return
	}
	q.state[t] = &queued{}
	q.push(t)
}

// push makes an object wait; q.mu is locked.
func (q *queue) push(t object) {
	q.waiting = append(q.waiting, t)
	wake(q.more)
}

// next waits for an object; false once ctx has ended and none waits.
func (q *queue) next(ctx context.Context) (object, bool) {
	for {
		q.mu.Lock()
		if len(q.waiting) > 0 {
			t := q.waiting[0]
			q.waiting = slices.Delete(q.waiting, 0, 1)
			q.state[t].copying = true
			if len(q.waiting) > 0 {
				wake(q.more) // for another worker
			}
			q.mu.Unlock()
			return t, true
		}
		q.mu.Unlock()
		select {
		case <-ctx.Done():
			return object{}, false
		case <-q.more:
		}
	}
}

// done ends a copy. A failed copy is repeated after retry. An object that was written meanwhile is copied again at
// once. isNew reports that the copy failed, for another reason than the copy before.
func (q *queue) done(t object, err error, retry time.Duration) (isNew bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.state[t]
	switch {
	case err != nil:
		isNew = s.failed != err.Error()
		*s = queued{failed: err.Error()}
		time.AfterFunc(retry, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.push(t)
		})
	case s.again:
		*s = queued{}
		q.push(t)
	default:
		delete(q.state, t)
	}
	return isNew
}

// pending gives the number of objects that wait, are copied, or wait for a retry.
func (q *queue) pending() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.state)
}
