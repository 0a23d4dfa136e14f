package pebbleshard

import (
	"context"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"cellgate/internal/fault"
)

// commit is a batch whose sync may not be finished.
type commit struct {
	batch *pebble.Batch
	// number counts the commits of a shard.
	number uint64
	done   chan struct{}
	// err is set before done is closed.
	err error
}

// commit writes a batch, with a new reservation of time if one is due, to the WAL and Pebble's memory. The caller
// holds s.mu, and then waits for commit.done without it. After an error the state is unknown: the store is broken.
func (s *Store) commit(b *pebble.Batch) (*commit, error) {
	to, reserve := s.clock.reservation()
	var err error
	if reserve {
		err = setTime(b, to)
	}
	if err == nil {
		err = s.sum.seal(b, &s.sizes)
	}
	if err == nil {
		err = guarded(func() error { return s.db.ApplyNoSyncWait(b, pebble.Sync) })
	}
	if err != nil {
		s.ends.set(err, false)
		return nil, fault.Wrap(fault.OutcomeUnknown, err, "the shard of cell %s failed to write", s.opts.Cell)
	}
	if reserve {
		s.clock.reserved = to
	}
	c := &commit{batch: b, number: s.sum.commit, done: make(chan struct{})}
	s.last = c
	s.syncer.add(c)
	return c, nil
}

// durable waits until a commit, and so all before it, is on disk. If ctx ends first, it returns the error of ctx.
func (s *Store) durable(ctx context.Context, c *commit) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
	default:
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.err != nil {
		return s.broken()
	}
	return nil
}

// syncer waits for the syncs of commits, in order, in one goroutine. It writes each to MARK before it is
// acknowledged. Once the store has ended, every commit fails.
type syncer struct {
	// raise writes a commit to MARK.
	raise func(number uint64) error
	ends  *ends

	mu     sync.Mutex
	queue  []*commit
	ended  bool
	signal chan struct{}
	done   chan struct{}
}

func (y *syncer) start(ends *ends, raise func(number uint64) error) {
	y.ends, y.raise = ends, raise
	y.signal = make(chan struct{}, 1)
	y.done = make(chan struct{})
	go y.run()
}

func (y *syncer) run() {
	defer close(y.done)
	for range y.signal {
		for {
			y.mu.Lock()
			todo := y.queue
			y.queue = nil
			ended := y.ended
			y.mu.Unlock()
			if len(todo) == 0 {
				if ended {
					return
				}
				break
			}
			for _, c := range todo {
				y.wait(c)
			}
		}
	}
}

func (y *syncer) wait(c *commit) {
	if c.err = y.ends.reason(); c.err == nil {
		c.err = c.batch.SyncWait()
		if c.err == nil {
			// A batch that failed is not closed: Pebble may still use it.
			c.err = c.batch.Close()
		}
		if c.err == nil {
			c.err = y.raise(c.number)
		}
		if c.err != nil {
			y.ends.set(c.err, false)
		}
	}
	c.batch = nil
	close(c.done)
}

func (y *syncer) add(c *commit) {
	y.mu.Lock()
	y.queue = append(y.queue, c)
	y.mu.Unlock()
	y.wake()
}

func (y *syncer) wake() {
	select {
	case y.signal <- struct{}{}:
	default:
	}
}

// close waits for the queued commits; none may be added afterwards.
func (y *syncer) close() {
	y.mu.Lock()
	y.ended = true
	y.mu.Unlock()
	y.wake()
	<-y.done
}
