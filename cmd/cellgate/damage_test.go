package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cellgate/internal/rpc"
	cellv1 "cellgate/proto/cellgate/cell/v1"
	"cellgate/shard"
	"cellgate/shard/pebbleshard"
)

// A running cell that reads a damaged file ends with status 1, without a panic. It names the file
// and what to do.
func TestACellThatMeetsDamageEndsWith1(t *testing.T) {
	data, body := t.TempDir(), make([]byte, 64<<10)
	_, _ = rand.Read(body) // never fails
	opts := pebbleshard.Options{Cell: "cell1", CellUUID: "c0000000-0000-4000-8000-000000000001"}
	for i := range 2 { // the second opening writes the first one's data to a table
		s, err := pebbleshard.Open(data, opts)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			err = s.PutDecisions(t.Context(), []shard.Decision{
				// Opening reads the blocks beside the bodies, but not the body in the middle.
				{ID: "cell1.a", At: time.Now(), Body: body[:60<<10]}, {ID: "cell1.b", At: time.Now(), Body: body}, {ID: "cell1.c", At: time.Now(), Body: body[:60<<10]},
			})
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	tables, err := filepath.Glob(filepath.Join(data, "pebble", "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	spoilt := 0
	for _, table := range tables {
		text := []byte(readFile(t, table))
		if i := bytes.Index(text, body[61<<10:62<<10]); i >= 0 {
			text[i] ^= 0xff
			spoilt++
			if err := os.WriteFile(table, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if spoilt == 0 {
		t.Fatalf("no table has the body: %v", tables)
	}
	cell := launch(t, true, cellArgs(data)...)
	at := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
	conn, err := rpc.Dial(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	cell.await(`msg="cell is ready"`)
	// This call or a compaction reads the damage first. The cell's log must be read meanwhile.
	var met sync.WaitGroup
	defer met.Wait()
	met.Go(func() {
		_, _ = cellv1.NewCellSchedulerClient(conn).GetDecision(t.Context(), &cellv1.GetDecisionRequest{DecisionId: "cell1.b"})
	})
	line := cell.await(`^cellgate: (.*)`)[1]
	if !strings.Contains(line, ".sst is damaged") || !strings.Contains(line, "bring back a copy of the directory") {
		t.Errorf("ends with %q", line)
	}
	cell.ended()
	if status := <-cell.status; status != exitRefused {
		t.Errorf("status %d, want %d", status, exitRefused)
	}
}
