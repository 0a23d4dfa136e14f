package cell

import (
	"context"
	"errors"
	"slices"
	"sync"

	"cellgate/shard"
	"cellgate/shard/shardtest"
)

// coldStore is a shard whose Load pauses when a test wants it to. Its HostFinder is the store's
// own, or a naive one.
type coldStore struct {
	shard.Store
	shard.HostFinder
	// begun gets an element when a Load has read its first row. The Load continues when resume is
	// closed.
	begun  chan struct{}
	resume chan struct{}

	mu       sync.Mutex
	onFilter func(ctx context.Context, q shard.HostQuery) error
	asked    []shard.HostQuery
}

// newColdStore wraps a store. If the store has no HostFinder, it adds a naive one.
func newColdStore(s shard.Store) *coldStore {
	c := &coldStore{Store: s, begun: make(chan struct{}, 9), resume: make(chan struct{})}
	filter, ok := s.(shard.HostFinder)
	if !ok {
		filter = shardtest.NaiveFinder{Store: s}
	}
	c.HostFinder = filter
	return c
}

// Load reads its first row, waits, and reads the others. All rows are from the same moment.
func (s *coldStore) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	first := true
	wait := func() error {
		if !first {
			return nil
		}
		first = false
		s.begun <- struct{}{}
		select {
		case <-s.resume:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	cursor, err := s.Store.Load(ctx, func(c shard.Change) error { return errors.Join(wait(), visit(c)) })
	if err == nil {
		err = wait() // there was no row
	}
	return cursor, err
}

// hook sets a function that runs before each search.
func (s *coldStore) hook(f func(ctx context.Context, q shard.HostQuery) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onFilter = f
}

func (s *coldStore) searches() []shard.HostQuery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *coldStore) FindHosts(ctx context.Context, q shard.HostQuery) (shard.HostMatches, error) {
	s.mu.Lock()
	hook := s.onFilter
	s.asked = append(s.asked, q)
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, q); err != nil {
			return shard.HostMatches{}, err
		}
	}
	return s.HostFinder.FindHosts(ctx, q)
}
