package cell

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

func TestNew_WithoutNameUUIDOrStore_IsRefused(t *testing.T) {
	store := newStore(t)
	for name, c := range map[string]struct {
		config Config
		store  shard.Store
	}{
		"no name":    {Config{UUID: cellUUID, Replica: "r"}, store},
		"no replica": {Config{Name: "a", UUID: cellUUID}, store},
		"no uuid":    {Config{Name: "a", UUID: "x", Replica: "r"}, store},
		"no store":   {Config{Name: "a", UUID: cellUUID, Replica: "r"}, nil},
	} {
		if _, err := New(c.config, Deps{Store: c.store}); fault.KindOf(err) != fault.InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// brokenStore fails at one point of the start.
type brokenStore struct {
	*testStore
	load, lane error
}

func (s brokenStore) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	if s.load != nil {
		return nil, s.load
	}
	return s.testStore.Load(ctx, visit)
}

func (s brokenStore) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	if s.lane != nil {
		return nil, s.lane
	}
	return s.testStore.OpenLane(ctx, replica)
}

func TestRunEndsWhenItCannotStart(t *testing.T) {
	broken := fault.New(fault.CellUnavailable, "no store")
	for _, store := range []shard.Store{
		brokenStore{testStore: newStore(t), load: broken},
		brokenStore{testStore: newStore(t), lane: broken},
	} {
		c, err := New(Config{Name: "a", UUID: cellUUID, Replica: "r"}, Deps{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&scheduler{Cell: c}).ProposeBatch(context.Background(), &cellv1.ProposeBatchRequest{Queries: []*cellv1.Query{query(1)}})
		if fault.KindOf(err) != fault.CellUnavailable {
			t.Errorf("before it runs: %v", err)
		}
		if err := c.Run(context.Background()); !errors.Is(err, broken) {
			t.Errorf("Run gave %v", err)
		}
		select {
		case <-c.Ready():
			t.Error("it said it was ready")
		default:
		}
	}
}

// If the store returns fewer outcomes than operations, the replica cannot answer its callers.
func TestAStoreThatBreaksItsContractEndsTheReplica(t *testing.T) {
	store := newStore(t)
	c, err := New(Config{Name: "a", UUID: cellUUID, Replica: "r"}, Deps{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- c.Run(context.Background()) }()
	<-c.Ready()
	store.hook(func([]shard.Op, func() (shard.Applied, error)) (shard.Applied, error) { return shard.Applied{}, nil })
	_, err = (&scheduler{Cell: c}).ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k", 1, 1, 1)}})
	if fault.KindOf(err) != fault.Internal {
		t.Errorf("the caller got %v", err)
	}
	if err := <-ran; fault.KindOf(err) != fault.Internal {
		t.Errorf("Run gave %v", err)
	}
}

// When the store breaks, the replica ends, so that its supervisor reopens the store and gateways
// stop planning on it.
func TestABrokenStoreEndsTheReplica(t *testing.T) {
	store := newStore(t)
	c, err := New(Config{Name: "a", UUID: cellUUID, Replica: "r"}, Deps{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- c.Run(context.Background()) }()
	<-c.Ready()
	store.hook(func([]shard.Op, func() (shard.Applied, error)) (shard.Applied, error) {
		return shard.Applied{}, fault.Wrap(fault.CellUnavailable, shard.ErrBroken, "no space left")
	})
	_, err = (&scheduler{Cell: c}).ClaimBatch(context.Background(), &cellv1.ClaimBatchRequest{Ops: []*cellv1.ClaimOp{newClaim("k", 1, 1, 1)}})
	if fault.KindOf(err) != fault.CellUnavailable {
		t.Errorf("the caller got %v", err)
	}
	if err := <-ran; !errors.Is(err, shard.ErrBroken) {
		t.Errorf("Run gave %v", err)
	}
}

// lostJournal is a journal without an entry that its reader has read.
type lostJournal struct{ shard.Synchronizer }

func (lostJournal) Tail(context.Context, shard.Cursor, int) ([]shard.Entry, shard.Cursor, error) {
	return nil, nil, fault.Wrap(fault.Gone, shard.ErrBroken, "an entry was lost")
}

// A replica that read what its database lost, as at a failover to an outdated standby, has rows that are newer than the
// database's. To load again would not replace them, so the replica ends.
func TestRun_JournalLostAnEntry_EndsTheReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		c, err := New(Config{Name: "a", UUID: cellUUID, Replica: "r"}, Deps{Store: store, Synchronizer: lostJournal{store}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // virtual
		defer cancel()
		if err := c.Run(ctx); !errors.Is(err, shard.ErrBroken) {
			t.Errorf("Run gave %v, want %v", err, shard.ErrBroken)
		}
	})
}

// waitingStore waits at one point of the start until its caller gives up, as a
// database does that reads many rows.
type waitingStore struct {
	*testStore
	at      string
	waiting chan struct{}
	fails   error
}

func (s waitingStore) wait(ctx context.Context, at string) error {
	if s.at != at {
		return nil
	}
	close(s.waiting)
	<-ctx.Done()
	return s.fails
}

func (s waitingStore) Load(ctx context.Context, visit func(shard.Change) error) (shard.Cursor, error) {
	if err := s.wait(ctx, "load"); err != nil {
		return nil, err
	}
	return s.testStore.Load(ctx, visit)
}

func (s waitingStore) OpenLane(ctx context.Context, replica string) (shard.Lane, error) {
	if err := s.wait(ctx, "lane"); err != nil {
		return nil, err
	}
	return s.testStore.OpenLane(ctx, replica)
}

// A replica that is stopped while it loads the shard ends without an error, whatever the
// interrupted store returns. A broken store is an error.
func TestStoppedWhileItLoads(t *testing.T) {
	for _, tt := range []struct {
		at    string
		fails error
		want  error
	}{
		{"load", context.Canceled, nil},
		{"load", fault.New(fault.CellUnavailable, "the database broke off a load"), nil},
		{"lane", context.Canceled, nil},
		{"load", shard.ErrBroken, shard.ErrBroken},
	} {
		var log bytes.Buffer
		store := waitingStore{testStore: newStore(t), at: tt.at, waiting: make(chan struct{}), fails: tt.fails}
		c, err := New(Config{Name: "a", UUID: cellUUID, Replica: "r"}, Deps{Store: store, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		<-store.waiting
		stop()
		if err := <-ran; !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s, %v: Run gave %v, want %v", tt.at, tt.fails, err, tt.want)
		}
		if noted := strings.Contains(log.String(), `level=INFO msg="cell was stopped while it loaded its shard`); noted != (tt.want == nil) || strings.Contains(log.String(), "ready") {
			t.Errorf("%s, %v: the log is %q", tt.at, tt.fails, log.String())
		}
	}
}
