package cell

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cellgate/internal/fault"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
)

func TestConfigNamesEveryBadField(t *testing.T) {
	_, err := New(Config{UUID: "x", PinFor: -1, MaxBatch: 1, HeartbeatEvery: 2 * time.Minute}, Deps{})
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, field := range f.Fields {
		got = append(got, field.Path)
	}
	if want := []string{"name", "uuid", "replica", "pin_for", "max_batch", "heartbeat_every"}; !slices.Equal(got, want) {
		t.Errorf("named %v, want %v", got, want)
	}
	if _, err := New(Config{Name: "a", UUID: cellUUID, Replica: "r"}, Deps{}); fault.KindOf(err) != fault.InvalidRequest {
		t.Errorf("without a store: %v", err)
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

// TestAStoreThatBreaksItsContractEndsTheReplica: an answer with fewer outcomes
// than operations cannot be given to anybody.
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

// TestABrokenStoreEndsTheReplica: whoever runs it must open the store again, and
// gateways must not go on planning on it.
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
