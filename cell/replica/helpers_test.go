package replica

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"cellgate/schedule"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
	"cellgate/shard/sqlshard"
)

const cellUUID = "f0f0f0f0-0000-4000-8000-000000000001"

func hostUUID(n int) string { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n) }

const (
	hostA = "aaaaaaaa-0000-4000-8000-000000000001"
	hostB = "aaaaaaaa-0000-4000-8000-000000000002"
)

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func mustParse(t *testing.T, uuid string) schedule.ID {
	t.Helper()
	id, err := schedule.ParseID(uuid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// newStore is a shard in memory.
func newStore(t testing.TB) shard.Store {
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
	return s
}

func openPostgres(t testing.TB, url string) shard.Store {
	t.Helper()
	s, err := sqlshard.Open(context.Background(), sqlshard.Options{
		Cell: "cell1", CellUUID: cellUUID, URL: url, Migrate: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}
