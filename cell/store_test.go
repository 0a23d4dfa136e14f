package cell

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"cellgate/internal/fault"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// testStore is a shard in memory that tests can break.
type testStore struct {
	shard.Store
	mu      sync.Mutex
	onApply applyHook
	// tailed counts the journal entries that were read.
	tailed int
}

// applyHook runs instead of a transaction, and may commit it.
type applyHook func(ops []shard.Op, commit func() (shard.Applied, error)) (shard.Applied, error)

func newStore(t testing.TB) *testStore {
	t.Helper()
	s, err := pebbleshard.OpenMem(pebbleshard.Options{Cell: "cell1", CellUUID: cellUUID, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &testStore{Store: s}
}

func (s *testStore) hook(f applyHook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onApply = f
}

// trimAll removes all entries of the journal.
func (s *testStore) trimAll(t testing.TB) {
	t.Helper()
	now, err := s.Now(context.Background())
	if err == nil {
		err = s.Trim(context.Background(), now.Add(time.Second))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *testStore) Tail(ctx context.Context, after shard.Cursor, limit int) ([]shard.Entry, shard.Cursor, error) {
	entries, to, err := s.Store.Tail(ctx, after, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tailed += len(entries)
	return entries, to, err
}

func (s *testStore) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	lane, err := s.Store.OpenLane(ctx, replica)
	return testLane{lane, s}, err
}

type testLane struct {
	shard.Lane
	store *testStore
}

func (l testLane) Apply(ctx context.Context, ops []shard.Op) (shard.Applied, error) {
	commit := func() (shard.Applied, error) { return l.Lane.Apply(ctx, ops) }
	l.store.mu.Lock()
	hook := l.store.onApply
	l.store.mu.Unlock()
	if hook != nil {
		return hook(ops, commit)
	}
	return commit()
}

// errUnknown is a commit whose answer was lost.
var errUnknown = fault.New(fault.OutcomeUnknown, "the answer was lost")
