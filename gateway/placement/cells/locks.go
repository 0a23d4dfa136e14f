package cells

import (
	"context"
	"sync"

	"cellgate/gateway/placement"
)

// locks order this gateway's writes where one cell's transaction cannot check whether another cell has the object.
// The zero value is ready; safe for concurrent use.
type locks struct {
	mu sync.Mutex
	// held has a channel for each locked key, closed on unlocking.
	held map[string]chan struct{}
}

// lock waits until all keys are free and locks them, or fails with ctx's error.
func (l *locks) lock(ctx context.Context, keys []string) (unlock func(), err error) {
	mine := make(chan struct{})
	for {
		busy := l.tryLock(keys, mine)
		if busy == nil {
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, k := range keys {
					delete(l.held, k)
				}
				close(mine)
			}, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock locks all keys and gives nil; or it locks none, and gives the channel of a locked key.
func (l *locks) tryLock(keys []string, mine chan struct{}) (busy chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if busy = l.held[k]; busy != nil {
			return busy
		}
	}
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	for _, k := range keys {
		l.held[k] = mine
	}
	return nil
}

// lockKeys gives the keys that a write locks: new or renamed providers by uuid and name, and consumers.
func lockKeys(w *placement.Write) (keys []string) {
	for i := range w.Providers {
		if p := &w.Providers[i]; p.Create || p.Name != nil {
			keys = append(keys, "provider "+p.UUID)
			if p.Name != nil {
				keys = append(keys, "name "+*p.Name)
			}
		}
	}
	for i := range w.Consumers {
		keys = append(keys, "consumer "+w.Consumers[i].UUID)
	}
	return keys
}
